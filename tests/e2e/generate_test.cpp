// Generates text with a trained model, as a user would.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/data/some_text.h"
#include "tests/e2e/run_comparison.h"

namespace mobius::generate_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kTextRun = R"(
task: {name: lm, seq_len: 16, tokenizer: char}
model: {d_model: 16, n_layers: 1, n_heads: 2}
train: {max_steps: 6, batch_size: 8, threads: 1}
eval: {every: 0}
)";

class GenerateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "run.yaml", kTextRun);
    write_text(folder_ / "text.txt", some_text(80));
  }

  // Trains with these overrides and returns the path of the checkpoint.
  std::string train(std::vector<std::string> overrides) const {
    std::vector<std::string> arguments = {"train", folder_ / "run.yaml", "--out", folder_ / "run"};
    overrides.push_back("task.text=" + (folder_ / "text.txt").string());
    arguments.insert(arguments.end(), overrides.begin(), overrides.end());
    const Outcome outcome = mobius(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return step_file(folder_ / "run", 6).string();
  }
  static Outcome generate(const std::string& checkpoint, std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", checkpoint});
    return mobius(more);
  }

  TemporaryFolder folder_;
};

TEST_F(GenerateTest, WritesThePromptAndAsManyTokensAsAsked) {
  const std::string checkpoint = train({});
  std::filesystem::remove(folder_ / "text.txt");  // the checkpoint suffices
  const Outcome outcome = generate(checkpoint, {"--prompt", "the ", "--tokens", "60"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("the "));
  const auto begins_character = [](char byte) { return (byte & 0xC0) != 0x80; };
  EXPECT_EQ(std::count_if(outcome.out.begin(), outcome.out.end(), begins_character), 64);
  EXPECT_THAT(outcome.err, HasSubstr("60 tokens, "));
}

TEST_F(GenerateTest, TheSeedAndTheOptionsDecide) {
  const std::string checkpoint = train({});
  const auto text = [&](const std::vector<std::string>& more) {
    const Outcome outcome = generate(checkpoint, more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  };
  const std::string first = text({"--seed", "3"});
  EXPECT_EQ(text({"--seed", "3"}), first);
  EXPECT_NE(text({"--seed", "4"}), first);
  const std::string greedy = text({"--temperature", "0"});
  EXPECT_EQ(text({"--top-k", "1", "--seed", "9"}), greedy);
  EXPECT_EQ(text({"--top-p", "0.0001", "--seed", "9"}), greedy);
}

TEST_F(GenerateTest, EveryTokenizerWrites) {
  for (const char* tokenizer : {"byte", "sentencepiece"}) {
    std::vector<std::string> overrides = {std::string("task.tokenizer=") + tokenizer};
    if (overrides[0].ends_with("piece")) overrides.push_back("task.vocab=320");
    std::filesystem::remove_all(folder_ / "run");
    const Outcome outcome = generate(train(overrides), {"--prompt", "h\xC3\xA9", "--tokens", "40"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, StartsWith("h\xC3\xA9"));
    EXPECT_GT(outcome.out.size(), 3u);
  }
}

TEST_F(GenerateTest, BeginsFromWhatTheTextHas) {
  const auto beginning_of = [&](std::string text) {
    write_text(folder_ / "text.txt", text);
    std::filesystem::remove_all(folder_ / "run");
    const Outcome outcome = generate(train({}), {"--tokens", "5"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out.substr(0, 1);
  };
  std::string text = some_text(80);
  EXPECT_EQ(beginning_of(text), "\n");
  std::replace(text.begin(), text.end(), '\n', ' ');
  EXPECT_EQ(beginning_of(text), " ");
  std::erase(text, ' ');
  std::erase(text, '.');
  EXPECT_EQ(beginning_of(text), "a") << "the first of its characters";
}

TEST_F(GenerateTest, MeetsNumbersAsAConfiguration) {
  const std::string checkpoint = train({});
  struct Refusal {
    const char *option, *value, *problem;
  };
  for (const auto& [option, value, problem] :
       std::vector<Refusal>{{"--seed", "-1", "must be in [0, 9223372036854775807], got -1"},
                            {"--seed", "18446744073709551615",
                             "'18446744073709551615' does not fit in a 64-bit integer"},
                            {"--tokens", "-1", "must be >= 0, got -1"},
                            {"--tokens", "1.5", "expected integer, got '1.5'"},
                            {"--tokens", "9223372036854775807",
                             "must be at most 1000000000000000, got 9223372036854775807"},
                            {"--top-k", "99999999999999999999",
                             "'99999999999999999999' does not fit in a 64-bit integer"},
                            {"--top-k", "0", "must be > 0, got 0"},
                            {"--top-p", "1.5", "must be in (0, 1], got 1.5"},
                            {"--top-p", "nan", "must be finite, got 'nan'"},
                            {"--temperature", "inf", "must be finite, got 'inf'"},
                            {"--temperature", "warm", "expected number, got 'warm'"},
                            {"--context", "-3", "must be >= 2, got -3"}}) {
    const Outcome outcome = generate(checkpoint, {option, value});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.err, fmt::format("mobius: error: {}: {}\n", option, problem));
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(
      generate(checkpoint, {"--tokens", "1e1", "--seed", "0x10", "--top-k", "9223372036854775807"})
          .exit_code,
      0);
}

TEST_F(GenerateTest, RefusesWhatItCannotGoOnFrom) {
  const std::string checkpoint = train({});
  const auto expect_error = [](const Outcome& outcome, int code, const std::string& part) {
    EXPECT_EQ(outcome.exit_code, code);
    EXPECT_THAT(outcome.err, AllOf(StartsWith("mobius: error: "), HasSubstr(part)));
    EXPECT_EQ(outcome.out, "");
  };
  expect_error(generate(checkpoint, {"--prompt", "\xE2\x82\xAC"}), 2, "--prompt: ");
  expect_error(generate(checkpoint, {"--prompt", ""}), 2, "--prompt: expected text");
  expect_error(generate(checkpoint, {"--temperature", "-1"}), 2,
               "--temperature: must be >= 0, got -1");
  expect_error(generate(checkpoint, {"--context", "1"}), 2, "--context: must be >= 2, got 1");
  expect_error(generate(folder_ / "none.h5", {}), 1, "none.h5");

  write_text(folder_ / "recall.yaml",
             "task: {name: recall, vocab: 16, seq_len: 16}\nmodel: {d_model: 16, n_layers: 1, "
             "n_heads: 2}\ntrain: {max_steps: 2, batch_size: 4, threads: 1}\n");
  ASSERT_EQ(mobius({"train", folder_ / "recall.yaml", "--out", folder_ / "recall"}).exit_code, 0);
  expect_error(generate(step_file(folder_ / "recall", 2), {}), 1,
               "expected a language model trained on text");
}

}  // namespace
}  // namespace mobius::generate_test
