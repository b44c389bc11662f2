#include "data/lm.h"

#include <fmt/core.h>

#include <span>
#include <utility>

#include "core/error.h"
#include "core/options/schema.h"
#include "core/options/validate.h"
#include "core/rng.h"
#include "data/corpus.h"
#include "data/permutation.h"
#include "data/windows.h"

namespace mobius {
namespace {

class LmTask final : public Task {
 public:
  LmTask(const LmOptions& options, Corpus corpus, std::uint64_t seed)
      : seed_(seed),
        seq_len_(options.seq_len),
        is_shuffled_(options.sampling == LmSampling::random),
        tokenizer_(std::move(corpus.tokenizer)),
        vocab_(corpus.vocab),
        bytes_per_token_(corpus.bytes_per_token),
        train_(std::move(corpus.train), seq_len_),
        test_(std::move(corpus.test), seq_len_),
        test_size_(options.n_test == 0 ? static_cast<std::int64_t>(test_.size()) : options.n_test),
        summary_(std::move(corpus.summary)),
        warnings_(std::move(corpus.warnings)) {
    require_windows(train_, "training", options.tokens.empty() ? "text" : "tokens");
    require_windows(test_, "validation",
                    options.validation.empty() ? "validation_fraction" : "validation");
    if (test_size_ > static_cast<std::int64_t>(test_.size()))
      throw ConfigError(
          "task.n_test: expected at most the {} sequences of {} tokens of the validation text, got "
          "{}",
          test_.size(), seq_len_, test_size_);
    const std::uint64_t digest = train_.digest(), digest_of_test = test_.digest();
    fingerprint_ =
        fmt::format("{} training tokens (digest {:016x}) and {} validation tokens ({:016x})",
                    train_.n_tokens(), digest, test_.n_tokens(), digest_of_test);
    if (digest == digest_of_test)
      warnings_.push_back("the validation data are a copy of the training data");
  }

  std::int64_t vocab_size() const override { return vocab_; }
  std::int64_t max_seq_len() const override { return seq_len_; }
  const std::vector<std::string>& groups() const override { return groups_; }
  std::int64_t test_size() const override { return test_size_; }
  bool is_language() const override { return true; }
  std::optional<double> bytes_per_token() const override { return bytes_per_token_; }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }
  std::string fingerprint() const override { return fingerprint_; }
  std::string summary() const override { return summary_; }
  std::vector<std::string> warnings() const override { return warnings_; }

  Batch sequences(Split split, int group, std::uint64_t first, std::int64_t count) const override {
    check_request(group, count);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(seq_len_) + 1);
    return make_batch(count, seq_len_, [&](std::uint64_t row, auto inputs, auto labels) {
      read_sequence(split, first + row, tokens);
      split_next_token(tokens, inputs, labels);
    });
  }

 private:
  void require_windows(const TokenWindows& windows, std::string_view part,
                       std::string_view key) const {
    if (windows.size() == 0)
      throw ConfigError(
          "task.{}: the {} text is shorter than one sequence of {} tokens and a label: {} tokens",
          key, part, seq_len_, windows.n_tokens());
  }

  void read_sequence(Split split, std::uint64_t index, std::span<std::int32_t> tokens) const {
    if (split == Split::test) {
      test_.read(test_window(index), 0, tokens);
    } else if (is_shuffled_) {
      read_shuffled(index, tokens);
    } else {
      train_.read(index % train_.size(), 0, tokens);
    }
  }

  // Spaces the windows evenly. They are distinct even though division rounds down, because there
  // are at least test_size_ of them.
  std::uint64_t test_window(std::uint64_t index) const {
    const auto n = static_cast<std::uint64_t>(test_size_);
    if (index >= n) throw Error("lm: test sequence {} requested, but there are only {}", index, n);
    const std::uint64_t step = test_.size() / n, rest = test_.size() % n;
    return index * step + index * rest / n;
  }

  void read_shuffled(std::uint64_t index, std::span<std::int32_t> tokens) const {
    const std::uint64_t epoch = index / train_.size();
    const Permutation order(train_.size(), {seed_, stream_id("lm order", epoch)});
    const std::uint64_t window = order.at(index % train_.size());
    const std::size_t range = train_.range_of(window);
    Rng rng({seed_, stream_id("lm shift", epoch, range)});
    train_.read(window, rng.below(train_.slack(range) + 1), tokens);
  }

  const std::uint64_t seed_;
  const std::int64_t seq_len_;
  const bool is_shuffled_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  const std::int64_t vocab_;
  const std::optional<double> bytes_per_token_;
  const TokenWindows train_, test_;
  const std::int64_t test_size_;
  const std::vector<std::string> groups_{"text"};
  std::string fingerprint_;
  const std::string summary_;
  std::vector<std::string> warnings_;
};

// ---- settings

bool learns_pieces(const LmOptions& options) {
  return options.tokens.empty() && options.tokenizer == LmTokenizer::sentencepiece &&
         options.tokenizer_model.empty();
}

}  // namespace

void LmOptions::describe(Schema& schema) {
  const auto has_text = [this] { return tokens.empty(); };
  const auto has_tokens = [this] { return text.empty(); };
  schema.field("text", text, "text file, or a pattern for several, such as books/*.txt");
  schema.field("tokens", tokens, "token files instead of text, as a path or pattern");
  schema
      .choice("token_format", token_format,
              {{"auto", TokenFormat::automatic},
               {"raw", TokenFormat::raw},
               {"llm.c", TokenFormat::llm_c}},
              "raw: 16-bit tokens without header (nanoGPT); llm.c: header, then 16 or 32-bit "
              "tokens; auto: detect by the first bytes")
      .only_if(has_tokens, "tokens: FILES");
  schema.field("validation", validation,
               "text or token files to test on; empty: the end of the training data");
  schema.field("validation_fraction", validation_fraction, "fraction of the data to test on")
      .above(0)
      .below(1)
      .only_if([this] { return validation.empty(); }, "validation: ''");
  schema
      .choice("tokenizer", tokenizer,
              {{"byte", LmTokenizer::byte},
               {"char", LmTokenizer::character},
               {"sentencepiece", LmTokenizer::sentencepiece}},
              "how text is split into tokens")
      .only_if(has_text, "text: FILES");
  schema
      .field("tokenizer_model", tokenizer_model,
             "a SentencePiece .model file; empty: learn the pieces from the training text")
      .only_if([this] { return tokenizer == LmTokenizer::sentencepiece; },
               "tokenizer: sentencepiece");
  schema
      .choice("pieces", pieces,
              {{"unigram", SentencePieceKind::unigram}, {"bpe", SentencePieceKind::bpe}},
              "model type that SentencePiece learns")
      .only_if([this] { return learns_pieces(*this); },
               "tokenizer: sentencepiece and no tokenizer_model");
  schema.field("vocab", vocab, "token files: bound of all tokens; sentencepiece: pieces to learn")
      .non_negative()
      .at_most(1 << 24)
      .only_if([this] { return !tokens.empty() || learns_pieces(*this); },
               "tokens: FILES, or pieces to learn");
  schema
      .field("bytes_per_token", bytes_per_token,
             "mean of the text of token files, for bits per byte; null: unknown")
      .positive()
      .only_if(has_tokens, "tokens: FILES");
  schema.field("seq_len", seq_len, "tokens in a sequence").positive();
  schema.choice("sampling", sampling,
                {{"random", LmSampling::random}, {"sequential", LmSampling::sequential}},
                "order of the sequences of an epoch");
  schema.field("n_test", n_test, "validation sequences, evenly spaced; 0: all").non_negative();
  schema.check("text", [this] {
    if (text.empty() == tokens.empty())
      throw ConfigError("expected either text or tokens, got {}",
                        text.empty() ? "neither" : "both");
  });
  schema.check("vocab", [this] {
    if (vocab == 0 && !tokens.empty())
      throw ConfigError("token files do not store their vocabulary size: set it");
    if (vocab == 0 && learns_pieces(*this))
      throw ConfigError("set the number of pieces for the sentencepiece tokenizer to learn");
  });
}

std::vector<DataPlace> LmOptions::places() {
  return {{"text", &text},
          {"tokens", &tokens},
          {"validation", &validation},
          {"tokenizer_model", &tokenizer_model}};
}

void LmOptions::check(std::uint64_t /*seed*/) const { validate_options(*this, "lm"); }

TaskSize LmOptions::least_size() const { return {tokens.empty() ? 1 : vocab, seq_len}; }

std::unique_ptr<Task> LmOptions::build(std::uint64_t seed) const {
  check(seed);
  return std::make_unique<LmTask>(*this, read_corpus(*this), seed);
}

std::unique_ptr<Task> LmOptions::rebuild(std::uint64_t seed, const TokenizerModel& stored) const {
  check(seed);
  return std::make_unique<LmTask>(*this, read_corpus(*this, &stored), seed);
}

}  // namespace mobius
