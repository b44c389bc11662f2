#include "data/lm.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/rng.h"
#include "core/schema.h"
#include "data/input_file.h"
#include "data/next_token.h"
#include "data/permutation.h"
#include "data/utf8.h"
#include "data/validate.h"
#include "data/windows.h"

namespace mobius {
namespace {

// All that a task is made of.
struct Corpus {
  std::unique_ptr<Tokenizer> tokenizer;  // null for files of tokens
  std::int64_t vocab = 0;
  std::optional<double> bytes_per_token;  // of the validation text
  std::vector<TokenRange> train;
  std::vector<TokenRange> test;
};

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
        test_size_(options.n_test == 0 ? static_cast<std::int64_t>(test_.size()) : options.n_test) {
    require_windows(train_, "training");
    require_windows(test_, "validation");
    if (test_size_ > static_cast<std::int64_t>(test_.size()))
      throw ConfigError("n_test = {}, but the validation text has {} sequences of {} tokens",
                        test_size_, test_.size(), seq_len_);
    fingerprint_ =
        fmt::format("{} training tokens (digest {:016x}) and {} validation tokens ({:016x})",
                    train_.n_tokens(), train_.digest(), test_.n_tokens(), test_.digest());
  }

  std::int64_t vocab_size() const override { return vocab_; }
  std::int64_t max_seq_len() const override { return seq_len_; }
  const std::vector<std::string>& groups() const override { return groups_; }
  std::int64_t test_size() const override { return test_size_; }
  bool is_language() const override { return true; }
  std::optional<double> bytes_per_token() const override { return bytes_per_token_; }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }
  std::string fingerprint() const override { return fingerprint_; }

  Batch sequences(Split split, int group, std::uint64_t first, std::int64_t count) const override {
    check_request(group, count);
    Batch batch;
    batch.inputs = Tensor::empty({count, seq_len_}, DType::i32);
    batch.labels = Tensor::empty({count, seq_len_}, DType::i32);
    const auto n = static_cast<std::size_t>(seq_len_);
    std::vector<std::int32_t> tokens(n + 1);
    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
      read_sequence(split, first + row, tokens);
      split_next_token(tokens, {batch.inputs.data<std::int32_t>() + row * n, n},
                       {batch.labels.data<std::int32_t>() + row * n, n});
    }
    return batch;
  }

 private:
  void require_windows(const TokenWindows& windows, std::string_view part) const {
    if (windows.size() == 0)
      throw ConfigError("the {} text is shorter than one sequence of {} tokens and a label", part,
                        seq_len_);
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

  // At even distances: rounding down keeps windows distinct, for there are at least test_size_.
  std::uint64_t test_window(std::uint64_t index) const {
    const auto n = static_cast<std::uint64_t>(test_size_);
    if (index >= n) throw Error("lm: test sequence {} asked for, there are {}", index, n);
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
};

// ---- text

std::string read_text(const std::string& pattern) {
  std::string text;
  for (const std::filesystem::path& path : matching_files(pattern)) text += content_of(path);
  if (text.empty()) throw Error("{}: there is no text in it", pattern);
  return text;
}

struct Texts {
  std::string train, test;
};

// The end of the text, from the beginning of a character on, is for validation.
Texts split_text(std::string text, double validation_fraction) {
  const auto size = static_cast<double>(text.size());
  const auto middle = static_cast<std::size_t>(std::floor(size * (1 - validation_fraction)));
  const std::size_t begin = character_start(text, middle);
  Texts texts{"", text.substr(begin)};
  text.resize(begin);
  texts.train = std::move(text);
  return texts;
}

Texts read_texts(const LmOptions& options) {
  std::string text = read_text(options.text);
  if (options.validation.empty()) return split_text(std::move(text), options.validation_fraction);
  return {std::move(text), read_text(options.validation)};
}

std::unique_ptr<Tokenizer> learn_tokenizer(const LmOptions& options, const Texts& texts) {
  switch (options.tokenizer) {
    case LmTokenizer::byte:
      break;
    case LmTokenizer::character:
      return make_char_tokenizer(texts.train + texts.test);
    case LmTokenizer::sentencepiece:
      if (!options.tokenizer_model.empty())
        return make_tokenizer({"sentencepiece", content_of(options.tokenizer_model)});
      return train_sentencepiece(texts.train, options.vocab, options.pieces);
  }
  return make_byte_tokenizer();
}

std::vector<TokenRange> whole(std::shared_ptr<const TokenSource> source) {
  const std::uint64_t size = source->size();
  return {{std::move(source), 0, size}};
}

Corpus tokenize(const Texts& texts, std::unique_ptr<Tokenizer> tokenizer) {
  Corpus corpus;
  corpus.tokenizer = std::move(tokenizer);
  corpus.vocab = corpus.tokenizer->vocab_size();
  corpus.train = whole(tokens_in_memory("training text", corpus.tokenizer->encode(texts.train)));
  corpus.test = whole(tokens_in_memory("validation text", corpus.tokenizer->encode(texts.test)));
  if (const std::uint64_t tokens = corpus.test.front().size(); tokens > 0)
    corpus.bytes_per_token = static_cast<double>(texts.test.size()) / static_cast<double>(tokens);
  return corpus;
}

// ---- files of tokens

std::vector<TokenRange> open_files(const LmOptions& options, const std::string& pattern) {
  std::vector<TokenRange> ranges;
  const auto needed = static_cast<std::uint64_t>(options.seq_len) + 1;
  for (const std::filesystem::path& path : matching_files(pattern)) {
    std::shared_ptr<const TokenSource> file =
        open_token_file(path, options.token_format, options.vocab);
    if (file->size() < needed)
      throw Error("{}: {} tokens are fewer than a sequence of {} and a label need", path.string(),
                  file->size(), options.seq_len);
    const std::uint64_t size = file->size();
    ranges.push_back({std::move(file), 0, size});
  }
  return ranges;
}

// The last tokens of the last files are for validation.
void split_files(std::vector<TokenRange> files, double validation_fraction, Corpus& corpus) {
  std::uint64_t total = 0;
  for (const TokenRange& file : files) total += file.size();
  auto left = static_cast<std::uint64_t>(
      std::floor(static_cast<double>(total) * (1 - validation_fraction)));
  for (const TokenRange& file : files) {
    const std::uint64_t middle = file.begin + std::min(left, file.size());
    left -= middle - file.begin;
    if (middle > file.begin) corpus.train.push_back({file.source, file.begin, middle});
    if (middle < file.end) corpus.test.push_back({file.source, middle, file.end});
  }
}

Corpus open_corpus(const LmOptions& options) {
  Corpus corpus;
  corpus.vocab = options.vocab;
  corpus.bytes_per_token = options.bytes_per_token;
  std::vector<TokenRange> files = open_files(options, options.tokens);
  if (options.validation.empty()) {
    split_files(std::move(files), options.validation_fraction, corpus);
  } else {
    corpus.train = std::move(files);
    corpus.test = open_files(options, options.validation);
  }
  return corpus;
}

// Runs `fn`, whose errors are about the value of this key.
template <typename Fn>
auto about(std::string_view key, Fn&& fn) {
  try {
    return fn();
  } catch (const ConfigError& error) {
    throw ConfigError("task.{}: {}", key, error.what());
  } catch (const Error& error) {
    throw Error("task.{}: {}", key, error.what());
  }
}

// ---- settings

template <typename T>
void require_unset(const T& value, const T& unset, const char* reason) {
  if (value != unset) throw ConfigError("has no effect {}; omit it", reason);
}

bool learns_pieces(const LmOptions& options) {
  return options.tokens.empty() && options.tokenizer == LmTokenizer::sentencepiece &&
         options.tokenizer_model.empty();
}

void check_vocab(const LmOptions& options) {
  if (options.vocab == 0 && !options.tokens.empty())
    throw ConfigError("token files do not say their vocabulary: give its size");
  if (options.vocab == 0 && learns_pieces(options))
    throw ConfigError("say how many pieces the sentencepiece tokenizer is to learn");
  if (options.tokens.empty() && !learns_pieces(options))
    require_unset<std::int64_t>(options.vocab, 0, "where the tokenizer has a size of its own");
}

void check_source(const LmOptions& options) {
  if (options.text.empty() == options.tokens.empty())
    throw ConfigError("expected either text or tokens, got {}",
                      options.text.empty() ? "neither" : "both");
}

void describe_checks(Schema& schema, const LmOptions& options) {
  const LmOptions unset;
  schema.check("text", [&options] { check_source(options); });
  schema.check("vocab", [&options] { check_vocab(options); });
  const auto needs = [&](const char* key, auto LmOptions::*member, const char* reason,
                         bool (*is_read)(const LmOptions&)) {
    schema.check(key, [&options, value = unset.*member, member, reason, is_read] {
      if (!is_read(options)) require_unset(options.*member, value, reason);
    });
  };
  needs("tokenizer", &LmOptions::tokenizer, "on files of tokens",
        [](const LmOptions& o) { return o.tokens.empty(); });
  needs("tokenizer_model", &LmOptions::tokenizer_model, "unless tokenizer: sentencepiece",
        [](const LmOptions& o) { return o.tokenizer == LmTokenizer::sentencepiece; });
  needs("pieces", &LmOptions::pieces, "unless a sentencepiece tokenizer is learned", learns_pieces);
  needs("token_format", &LmOptions::token_format, "on text",
        [](const LmOptions& o) { return o.text.empty(); });
  needs("bytes_per_token", &LmOptions::bytes_per_token, "on text, where it is counted",
        [](const LmOptions& o) { return o.text.empty(); });
  needs("validation_fraction", &LmOptions::validation_fraction, "beside a validation text",
        [](const LmOptions& o) { return o.validation.empty(); });
}

}  // namespace

void LmOptions::describe(Schema& schema) {
  schema.field("text", text, "text file, or several by a pattern such as books/*.txt");
  schema.field("tokens", tokens, "in place of text: files of tokens, by path or pattern");
  schema.choice(
      "token_format", token_format,
      {{"auto", TokenFormat::automatic}, {"raw", TokenFormat::raw}, {"llm.c", TokenFormat::llm_c}},
      "raw: 16-bit tokens alone (nanoGPT); llm.c: its header, then 16 or 32-bit tokens; "
      "auto: by the first bytes");
  schema.field("validation", validation,
               "text or token files to test on; empty: the end of the training data");
  schema.field("validation_fraction", validation_fraction, "how much of it").above(0).below(1);
  schema.choice("tokenizer", tokenizer,
                {{"byte", LmTokenizer::byte},
                 {"char", LmTokenizer::character},
                 {"sentencepiece", LmTokenizer::sentencepiece}},
                "how text becomes tokens");
  schema.field("tokenizer_model", tokenizer_model,
               "a SentencePiece .model file; empty: learn the pieces from the training text");
  schema.choice("pieces", pieces,
                {{"unigram", SentencePieceKind::unigram}, {"bpe", SentencePieceKind::bpe}},
                "how SentencePiece learns them");
  schema.field("vocab", vocab, "token files: above all tokens; sentencepiece: pieces to learn")
      .non_negative()
      .at_most(1 << 24);
  schema
      .field("bytes_per_token", bytes_per_token,
             "of the text behind token files, for bits per byte; null: unknown")
      .positive();
  schema.field("seq_len", seq_len, "tokens a model sees at once").positive();
  schema.choice("sampling", sampling,
                {{"random", LmSampling::random}, {"sequential", LmSampling::sequential}},
                "order of the sequences of an epoch, which takes each once");
  schema.field("n_test", n_test, "validation sequences, at even distances; 0: all").non_negative();
  describe_checks(schema, *this);
}

std::vector<DataPlace> LmOptions::places() {
  return {{"text", &text},
          {"tokens", &tokens},
          {"validation", &validation},
          {"tokenizer_model", &tokenizer_model}};
}

void LmOptions::check(std::uint64_t /*seed*/) const { validate_options(*this, "lm"); }

std::unique_ptr<Task> LmOptions::build(std::uint64_t seed) const {
  check(seed);
  if (!tokens.empty()) {
    return about("tokens",
                 [&] { return std::make_unique<LmTask>(*this, open_corpus(*this), seed); });
  }
  return about("text", [&] {
    const Texts texts = read_texts(*this);
    return std::make_unique<LmTask>(*this, tokenize(texts, learn_tokenizer(*this, texts)), seed);
  });
}

std::unique_ptr<Task> LmOptions::rebuild(std::uint64_t seed, const TokenizerModel& stored) const {
  check(seed);
  if (!tokens.empty()) return build(seed);
  return about("text", [&] {
    return std::make_unique<LmTask>(*this, tokenize(read_texts(*this), make_tokenizer(stored)),
                                    seed);
  });
}

}  // namespace mobius
