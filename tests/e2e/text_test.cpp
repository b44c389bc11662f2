// Trains on text and on token files, as a user would.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/foreign_model.h"
#include "tests/data/some_text.h"
#include "tests/data/token_files.h"
#include "tests/e2e/run_comparison.h"
#include "train/checkpoint/safetensors.h"

namespace mobius::text_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kTextRun = R"(
task: {name: lm, seq_len: 16}
model: {d_model: 16, n_layers: 1, n_heads: 2}
train: {max_steps: 6, batch_size: 8, threads: 1, log_every: 1}
eval: {every: 3}
checkpoint: {every: 2}
)";

class TextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_text(config_, kTextRun);
    write_text(text_, some_text(80));
  }

  std::vector<std::string> train_command(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"train", config_, "--out", folder_ / "run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Outcome train(const std::vector<std::string>& more) const { return mobius(train_command(more)); }
  void expect_error(const Outcome& outcome, const std::string& part) const {
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, AllOf(StartsWith("mobius: error: "), HasSubstr(part)));
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
  }
  std::string checkpoint() const { return step_file(folder_ / "run", 6).string(); }

  TemporaryFolder folder_;
  const std::string config_ = folder_ / "run.yaml";
  const std::string text_ = folder_ / "text.txt";
};

TEST_F(TextTest, EveryTokenizerTrainsAndEvaluates) {
  for (const std::vector<std::string>& tokenizer :
       {std::vector<std::string>{"task.tokenizer=byte"},
        {"task.tokenizer=char"},
        {"task.tokenizer=sentencepiece", "task.vocab=320"}}) {
    std::vector<std::string> more = {"task.text=" + text_};
    more.insert(more.end(), tokenizer.begin(), tokenizer.end());
    fs::remove_all(folder_ / "run");
    const Outcome trained = train(more);
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    EXPECT_THAT(trained.out, AllOf(HasSubstr("perplexity"), HasSubstr("bits per byte")));
    const Outcome evaluated = mobius({"eval", checkpoint(), "--json"});
    ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
    const json score = json::parse(evaluated.out);
    const json logged = metrics_in(folder_ / "run", "test").back();
    for (const char* key : {"loss", "perplexity", "bits_per_byte"})
      EXPECT_EQ(score.at(key), logged.at(key)) << key;
    EXPECT_THAT(mobius({"eval", checkpoint()}).out, HasSubstr("bits per byte"));
  }
}

// A new tokeniser would have other tokens for this text.
TEST_F(TextTest, EvaluatesWithTheTokenizerOfTheCheckpoint) {
  ASSERT_EQ(train({"task.text=" + text_, "task.tokenizer=char"}).exit_code, 0);
  std::string shorter = some_text(80);
  std::erase(shorter, 'b');
  write_text(text_, shorter);
  const Outcome outcome = mobius({"eval", checkpoint()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(StartsWith("mobius: warning: " + checkpoint() + ": was made with"),
                                 HasSubstr(", but now there are ")));
  EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
  write_text(text_, some_text(80) + "\t");
  expect_error(mobius({"eval", checkpoint()}), "is not among the");
}

TEST_F(TextTest, FilesOfTokens) {
  write_raw(folder_ / "raw.bin", std::vector<std::uint16_t>(2000, 7));
  write_llm_c(folder_ / "a_1.bin", std::vector<std::uint32_t>(500, 7));
  write_llm_c(folder_ / "a_2.bin", std::vector<std::uint32_t>(500, 8));
  for (const char* pattern : {"raw.bin", "a_*.bin"}) {
    fs::remove_all(folder_ / "run");
    const Outcome trained = train({"task.tokens=" + (folder_ / pattern).string(), "task.vocab=50"});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    EXPECT_THAT(trained.out, AllOf(HasSubstr("perplexity"), Not(HasSubstr("bits per byte"))));
    EXPECT_EQ(mobius({"eval", checkpoint()}).exit_code, 0);
  }
}

// The vocabulary is prime and larger than 16 bits. The model has exactly one row per token: padding
// rows would take probability from tokens or be predicted.
TEST_F(TextTest, TheVocabularyIsNotPadded) {
  constexpr std::uint32_t vocab = 70001;
  std::vector<std::uint32_t> tokens;
  for (std::uint32_t i = 0; i < 600; ++i) tokens.push_back(vocab - 1 - i % 7 * 10000);
  write_llm_c(folder_ / "t.bin", tokens);
  const Outcome trained =
      train({"task.tokens=" + (folder_ / "t.bin").string(), fmt::format("task.vocab={}", vocab)});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const json first = metrics_in(folder_ / "run", "train").front();
  EXPECT_NEAR(first.at("loss").get<double>(), std::log(vocab), 0.05);
  ASSERT_EQ(mobius({"export", checkpoint(), folder_ / "model.safetensors"}).exit_code, 0);
  const Safetensors model = read_safetensors(folder_ / "model.safetensors");
  EXPECT_EQ(model.tensors.front().name, "embedding.weight");
  EXPECT_EQ(model.tensors.front().value.shape(), (Shape{vocab, 16}));

  tokens[500] = vocab;
  write_llm_c(folder_ / "t.bin", tokens);
  fs::remove_all(folder_ / "run");
  expect_error(
      train({"task.tokens=" + (folder_ / "t.bin").string(), fmt::format("task.vocab={}", vocab)}),
      "t.bin: token 70001 at index 500 (byte 3024) is not below the vocabulary size 70001");
}

TEST_F(TextTest, FaultsOfFilesAreOneLine) {
  const auto on_tokens = [&](const std::string& content) {
    write_text(folder_ / "t.bin", content);
    return train({"task.tokens=" + (folder_ / "t.bin").string(), "task.vocab=50"});
  };
  expect_error(train({"task.text=" + (folder_ / "absent.txt").string()}),
               "absent.txt: no such file");
  expect_error(on_tokens("abc"), "t.bin: 3 bytes are not a whole number of 16-bit tokens");
  expect_error(on_tokens("abcd"), "t.bin: 2 tokens are fewer than a sequence of 16");
  expect_error(on_tokens(llm_c_header(20240520, 9, 0)), "t.bin: version 9 of the token format");
  std::vector<std::uint16_t> tokens(200, 7);
  tokens[20] = 50;
  expect_error(on_tokens(bytes_of(tokens)),
               "t.bin: token 50 at index 20 (byte 40) is not below the vocabulary size 50");
  EXPECT_FALSE(fs::exists(folder_ / "run")) << "no run is started";
}

// A score of tokens that do not keep the text would compare with none.
TEST_F(TextTest, ATokenizerThatDoesNotKnowTheText) {
  const std::string model = write_foreign_model(folder_.path(), "m", some_text(300));
  std::string text;
  for (int line = 0; line < 200; ++line) text += "これは日本語の文章です。ku\n";
  write_text(text_, text);
  const Outcome trained = train(
      {"task.text=" + text_, "task.tokenizer=sentencepiece", "task.tokenizer_model=" + model});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(trained.err, "") << "the library prints messages";
  EXPECT_THAT(
      trained.out,
      AllOf(::testing::ContainsRegex("\ndata: [0-9]+ training and [0-9]+ validation tokens, [1-9]"),
            ::testing::ContainsRegex("\nwarning: training text: [0-9]+ of [0-9]+ tokens "),
            ::testing::ContainsRegex("\nwarning: validation text: [0-9]+ of [0-9]+ tokens [(]"),
            Not(HasSubstr(" bits per byte\n")), Not(HasSubstr(" bits per byte,"))));
  EXPECT_FALSE(metrics_in(folder_ / "run", "test").back().contains("bits_per_byte"));
  EXPECT_THAT(read_text(folder_ / "run" / "summary.json"), Not(HasSubstr("bits_per_byte")));

  const Outcome evaluated = mobius({"eval", checkpoint(), "--json"});
  EXPECT_THAT(evaluated.err, HasSubstr("mobius: warning: validation text: "));
  EXPECT_FALSE(json::parse(evaluated.out).contains("bits_per_byte"));
  const Outcome written =
      mobius({"generate", checkpoint(), "--prompt", "ku 日本", "--tokens", "3"});
  EXPECT_EQ(written.exit_code, 0);
  EXPECT_THAT(written.err, StartsWith("mobius: warning: --prompt: 1 of "));
}

TEST_F(TextTest, FaultsOfATokenizerNameTheirKey) {
  const auto fault = [&](int code, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"task.text=" + text_, "task.tokenizer=sentencepiece"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = train(all);
    EXPECT_EQ(outcome.exit_code, code);
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(
      fault(1, {"task.tokenizer_model=" + text_}),
      StartsWith("mobius: error: task.tokenizer_model: " + text_ + ": this is not a Sentence"));
  EXPECT_THAT(fault(1, {"task.tokenizer_model=none.model"}),
              StartsWith("mobius: error: task.tokenizer_model: none.model: "));
  EXPECT_THAT(fault(2, {"task.vocab=100"}), StartsWith("mobius: error: task.vocab: expected at "));
  EXPECT_THAT(fault(2, {"task.vocab=9000"}),
              StartsWith("mobius: error: task.vocab: the text has at most "));
  write_text(text_, std::string(1000, '\t'));
  EXPECT_EQ(fault(1, {"task.vocab=300"}),
            "mobius: error: task.text: the text has nothing to learn pieces from\n");
  write_text(text_, "aaaaaaaaa");  // the library ends its program here
  EXPECT_THAT(fault(1, {"task.vocab=270"}),
              HasSubstr("task.text: the text is too short or too repetitive to learn"));
  EXPECT_FALSE(fs::exists(folder_ / "run")) << "no run is started";
}

TEST_F(TextTest, WhatIsLearnedFromIsNotTestedOn) {
  fs::create_symlink(text_, folder_ / "link.txt");
  const Outcome outcome =
      train({"task.text=" + text_, "task.validation=" + (folder_ / "link.txt").string()});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "mobius: error: task.validation: " + (folder_ / "link.txt").string() +
                             " is the same file as " + text_ + " (task.text)\n");
}

// A `~` means the home folder in every key and argument that holds a path: no shell sees a key's.
TEST_F(TextTest, TheHomeFolderInEveryPath) {
  const Surroundings around{.environment = {{"HOME", folder_.path().string()}}};
  const auto in_home = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = mobius(arguments, around);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  };
  fs::rename(text_, folder_ / "t[1].txt");
  write_text(folder_ / "v.txt", some_text(30) + "end");
  write_foreign_model(folder_.path(), "m", some_text(300));
  std::string config = std::string(kTextRun) + "output: {dir: ~/run}\n";
  config.replace(config.find("seq_len"), 0, "text: '~/t[1].txt', ");
  write_text(config_, config);
  in_home({"train", "~/run.yaml", "task.validation=~/v.t*", "task.tokenizer=sentencepiece",
           "task.tokenizer_model=~/m.model"});
  EXPECT_TRUE(fs::exists(checkpoint()));
  in_home({"train", "~/run.yaml", "--out=~/other"});
  const std::string best = "~/other/checkpoints/best.h5";
  in_home({"train", "~/run.yaml", "train.max_steps=8", "--resume=" + best, "--out=~/third"});
  in_home({"eval", best});
  in_home({"inspect", best});
  in_home({"generate", best, "--tokens", "2"});
  in_home({"export", best, "~/model.safetensors"});
  in_home({"import", "~/run.yaml", "~/model.safetensors", "~/start.h5"});
  in_home({"watch", "~/other", "--once"});
  in_home({"config", "show", "~/run.yaml"});
  write_text(folder_ / "cmp.yaml",
             "base: ~/run.yaml\noutput: {dir: ~/cmp}\ngrid: {train.seed: [1]}\n");
  in_home({"compare", "~/cmp.yaml"});
  in_home({"compare", "--report", "~/cmp", "--out=~/report"});
  for (const char* made :
       {"third/summary.json", "start.h5", "cmp/report.html", "report/report.html"})
    EXPECT_TRUE(fs::exists(folder_ / made)) << made;
}

TEST_F(TextTest, AFileOfTokensThatShrinksWhileItIsInUse) {
  const fs::path file = folder_ / "t.bin";
  write_raw(file, std::vector<std::uint16_t>(1 << 20, 7));
  Process process(mobius_command(
      train_command({"task.tokens=" + file.string(), "task.vocab=50", "train.max_steps=100000000",
                     "checkpoint.every=5", "eval.every=0"})));
  ASSERT_TRUE(wait_until([&] { return fs::exists(step_file(folder_ / "run", 5)); }));
  fs::resize_file(file, 4096);
  const Outcome outcome = process.wait();
  expect_error(outcome, "t.bin: has shrunk from 2097152 to 4096 bytes while in use");
  const NewestCheckpoint newest = newest_checkpoint(folder_ / "run" / "checkpoints");
  ASSERT_TRUE(newest.path.has_value()) << "the last checkpoint is whole";
  EXPECT_TRUE(newest.skipped.empty());
}

TEST_F(TextTest, TheBibleFromDebian) {
  if (Process({"bible", "gen1:1"}).wait().exit_code != 0)
    GTEST_SKIP() << "there is no program 'bible' (Debian: bible-kjv)";
  const std::string script = std::string(MOBIUS_SOURCE_DIR) + "/scripts/bible_text.sh";
  const fs::path file = folder_ / "new" / "bible.txt";
  ASSERT_EQ(Process({script, file.string()}).wait().exit_code, 0);
  const std::vector<std::string> verses = lines_of(read_text(file));
  EXPECT_EQ(verses.size(), 31102u);
  EXPECT_EQ(verses.front(), "In the beginning God created the heaven and the earth.");
  EXPECT_EQ(verses.back(), "The grace of our Lord Jesus Christ be with you all. Amen.");
}

}  // namespace
}  // namespace mobius::text_test
