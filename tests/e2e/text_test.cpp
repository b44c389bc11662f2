// Training on text, and on files of tokens, as a user would.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/some_text.h"
#include "tests/data/token_files.h"
#include "tests/e2e/run_comparison.h"
#include "train/safetensors.h"

namespace mobius {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kTextRun = R"(
task: {name: lm, seq_len: 16}
model: {d_model: 16, n_layers: 1, n_heads: 2}
train: {max_steps: 6, batch_size: 8, threads: 1, log_every: 1}
eval: {every: 3}
checkpoint: {every: 2}
)";

class TextTest : public testing::Test {
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

// A tokeniser made anew would have other tokens for this text.
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

// A vocabulary that is a multiple of nothing, and larger than 16 bits: the model has a row for each
// token and no more, so that none can take probability from them or be predicted.
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
      "t.bin: token 70001 at byte 3024 is not below the vocabulary size 70001");
}

TEST_F(TextTest, FaultsOfFilesAreOneLine) {
  const auto on_tokens = [&](const std::string& content) {
    write_text(folder_ / "t.bin", content);
    return train({"task.tokens=" + (folder_ / "t.bin").string(), "task.vocab=50"});
  };
  expect_error(train({"task.text=" + (folder_ / "absent.txt").string()}),
               "absent.txt: no such file");
  expect_error(on_tokens("abc"), "t.bin: 3 bytes are no whole number of 16-bit tokens");
  expect_error(on_tokens("abcd"), "t.bin: 2 tokens are fewer than a sequence of 16");
  expect_error(on_tokens(llm_c_header(20240520, 9, 0)), "t.bin: version 9 of the token format");
  std::vector<std::uint16_t> tokens(200, 7);
  tokens[20] = 50;
  expect_error(on_tokens(bytes_of(tokens)),
               "t.bin: token 50 at byte 40 is not below the vocabulary size 50");
  EXPECT_FALSE(fs::exists(folder_ / "run")) << "nothing is started";
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
}  // namespace mobius
