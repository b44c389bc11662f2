// Runs on text: what they measure and keep, and that labels are shifted once.

#include "train/recording/perplexity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "data/lm.h"
#include "tests/data/some_text.h"
#include "tests/data/token_files.h"
#include "tests/train/run_fixture.h"
#include "tests/train/step_fixture.h"
#include "train/run/start.h"

namespace mobius::perplexity_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kTextRun = R"(
task: {name: lm, tokenizer: char, seq_len: 16, n_test: 8}
model: {d_model: 16, n_layers: 1, n_heads: 2, dropout: 0.1}
train: {max_steps: 6, batch_size: 8, accumulation_steps: 2, threads: 1, log_every: 1}
eval: {every: 3}
checkpoint: {every: 3}
)";

class TextRun : public ::testing::Test {
 protected:
  void SetUp() override { write_text(text_, some_text(60)); }

  RunSummary train(const std::string& run, std::vector<std::string> overrides = {},
                   const std::string& resume = "") const {
    overrides.push_back("task.text=" + text_.string());
    return train_in(folder_ / run, known_, overrides, resume, kTextRun);
  }
  std::vector<Json> lines(const std::string& run) const {
    std::vector<Json> result;
    for (const std::string& line : lines_of(read_text(folder_ / run / "metrics.jsonl"))) {
      result.push_back(Json::parse(line));
      result.back().erase("tokens_per_s");
    }
    return result;
  }
  CheckpointHeader header(const std::string& run, std::int64_t step) const {
    return read_checkpoint_header(checkpoint_path(folder_ / run / "checkpoints", step));
  }

  const Registries known_;
  TemporaryFolder folder_;
  const fs::path text_ = folder_ / "text.txt";
};

TEST_F(TextRun, MeasuresTheLossInEveryUnit) {
  const RunSummary summary = train("run");
  const auto task = [&] {
    LmOptions options;
    options.text = text_;
    options.tokenizer = LmTokenizer::character;
    options.seq_len = 16;
    return options.build(1);
  }();
  const double bytes = task->bytes_per_token().value();
  EXPECT_GT(bytes, 1) << "some characters take two bytes";
  int n_tests = 0;
  for (const Json& line : lines("run")) {
    const double loss = line.at("loss");
    EXPECT_DOUBLE_EQ(line.at("perplexity"), std::exp(loss));
    const bool is_test = line.at("split") == "test";
    EXPECT_EQ(line.contains("bits_per_byte"), is_test) << "counted on the validation text";
    if (is_test) {
      EXPECT_DOUBLE_EQ(line.at("bits_per_byte"), loss / std::numbers::ln2 / bytes);
    }
    n_tests += is_test;
  }
  EXPECT_EQ(n_tests, 2);
  ASSERT_TRUE(summary.language.has_value());
  EXPECT_DOUBLE_EQ(summary.language->perplexity, std::exp(summary.test->loss()));
  const RunSummary read = read_summary(folder_ / "run" / "summary.json").value();
  EXPECT_EQ(read.language->bits_per_byte, summary.language->bits_per_byte);
  EXPECT_EQ(language_words(LanguageScore{.perplexity = 2.5, .bits_per_byte = 1.25}),
            ", perplexity 2.5000, 1.2500 bits per byte");
}

TEST_F(TextRun, OtherTasksHaveNoPerplexity) {
  const RunSummary summary = train_in(folder_ / "mqar", known_);
  EXPECT_FALSE(summary.language.has_value());
  EXPECT_FALSE(lines("mqar").back().contains("perplexity"));
  EXPECT_FALSE(header("mqar", 6).tokenizer.has_value());
  EXPECT_EQ(language_words({}), "");
}

// An untrained model gives all 256 bytes, or all characters, about the same probability: the bits
// per byte then are those of the vocabulary, whatever the tokeniser's share of a byte is.
TEST_F(TextRun, BitsPerByteOfAnUntrainedModel) {
  const std::vector<std::string> untrained = {"optimizer.lr=1e-9", "model.init_std=0.001"};
  const auto bits = [&](const std::string& run, std::vector<std::string> more) {
    more.insert(more.end(), untrained.begin(), untrained.end());
    return train(run, more).language->bits_per_byte.value();
  };
  EXPECT_NEAR(bits("byte", {"task.tokenizer=byte"}), 8, 0.01);
  const double characters =
      static_cast<double>(make_char_tokenizer(read_text(text_))->vocab_size());
  EXPECT_LT(bits("char", {}), std::log2(characters));
  EXPECT_GT(bits("char2", {}), 0.9 * std::log2(characters));
}

TEST_F(TextRun, CheckpointsCarryTheTokenizer) {
  train("run");
  const TokenizerModel model = header("run", 6).tokenizer.value();
  EXPECT_EQ(model, make_char_tokenizer(read_text(text_))->model());
  train("pieces", {"task.tokenizer=sentencepiece", "task.vocab=300"});
  EXPECT_EQ(make_tokenizer(header("pieces", 6).tokenizer.value())->vocab_size(), 300);
}

TEST_F(TextRun, AResumedRunIsTheUninterruptedOne) {
  train("whole");
  train("parts", {"train.max_steps=3", "schedule.kind=constant"});
  train("whole2", {"schedule.kind=constant"});
  train("parts", {"schedule.kind=constant"}, "auto");
  EXPECT_EQ(lines("parts"), lines("whole2"));
  EXPECT_NE(lines("parts"), lines("whole"));
}

// The checkpoint here has pieces that the text would not give by itself.
TEST_F(TextRun, PiecesAreNotLearnedAgainOnResume) {
  const auto task_with = [&](SentencePieceKind pieces) {
    LmOptions options;
    options.text = text_;
    options.tokenizer = LmTokenizer::sentencepiece;
    options.pieces = pieces;
    options.vocab = 300;
    options.seq_len = 16;
    return options.build(1);
  };
  const auto before = task_with(SentencePieceKind::bpe);
  Start start;
  start.header.tokenizer = before->tokenizer()->model();
  start.header.data = before->fingerprint();
  const auto config =
      config_of(kTextRun,
                {"task={name: lm, tokenizer: sentencepiece, vocab: 300, seq_len: 16, text: " +
                 text_.string() + "}"},
                known_);
  EXPECT_EQ(build_task_of(start, *config)->tokenizer()->model(), start.header.tokenizer);
  EXPECT_NE(build_task(*config)->tokenizer()->model(), start.header.tokenizer);
}

TEST_F(TextRun, AChangedTextIsNoticedOnResume) {
  train("run", {"train.max_steps=3"});
  write_text(text_, some_text(60) + "#");
  const std::int64_t now = make_char_tokenizer(read_text(text_))->vocab_size();
  EXPECT_THAT(error_of<ConfigError>([&] { train("run", {}, "auto"); }),
              HasSubstr(fmt::format("was made with a char tokenizer of {} tokens, but the text now "
                                    "gives a char tokenizer of {} tokens",
                                    now - 1, now)));
}

// The shard keeps its length and vocabulary, but has other tokens.
TEST_F(TextRun, AnEditedShardIsNoticedOnResume) {
  const auto train_on = [&](std::uint16_t token, const std::string& resume) {
    std::vector<std::uint16_t> tokens(500, 3);
    tokens[100] = token;
    write_raw(folder_ / "t.bin", tokens);
    train_in(folder_ / "run", known_,
             {"task={name: lm, tokens: " + (folder_ / "t.bin").string() +
                  ", vocab: 9, seq_len: 16, n_test: 2}",
              resume.empty() ? "train.max_steps=3" : "train.max_steps=6"},
             resume, kTextRun);
  };
  train_on(3, "");
  const std::string before = header("run", 3).data;
  EXPECT_THAT(before, HasSubstr("450 training tokens"));
  EXPECT_THAT(error_of<ConfigError>([&] { train_on(4, "auto"); }),
              AllOf(HasSubstr("was made with " + before + ", but now there are 450 training")));
  train_on(3, "auto");
  EXPECT_EQ(header("run", 6).data, before);
}

// ---- labels are shifted once

TEST(Labels, AreShiftedOnceInTrainingAndEvaluation) {
  constexpr std::int64_t vocab = 16;
  const TemporaryFolder folder;
  std::vector<std::uint16_t> counting;
  for (int i = 0; i < 2000; ++i) counting.push_back(static_cast<std::uint16_t>(i % vocab));
  write_raw(folder / "t.bin", counting);
  LmOptions options;
  options.tokens = folder / "t.bin";
  options.vocab = vocab;
  options.seq_len = 16;
  const auto task = options.build(1);
  for (const std::int64_t step : {0, 1, 2}) {
    const auto model = adding_model(vocab, options.seq_len, step);
    const Score trained =
        accumulate_gradients(*model, task->batch(Split::train, 0, 8), /*micro_batches=*/2,
                             /*seed=*/1, /*step=*/1);
    for (const Score& score : {trained, evaluate(*model, *task, 8).total}) {
      EXPECT_EQ(score.accuracy(), step == 1 ? 1 : 0) << step;
      if (step == 1) {
        EXPECT_LT(score.loss(), 1e-3);
      } else {
        EXPECT_GT(score.loss(), 10);
      }
    }
  }
}

}  // namespace
}  // namespace mobius::perplexity_test
