// Language modelling: predict the next token of a text.
#pragma once

#include "data/task.h"
#include "data/token_source.h"
#include "data/tokenizer.h"

namespace mobius {

enum class LmTokenizer { byte, character, sentencepiece };

/// The order of the windows of an epoch.
enum class LmSampling { random, sequential };

/// The data are text, read whole and tokenised, or token files (data/token_source.h). Sequences are
/// adjacent windows of seq_len tokens; inputs and labels are [batch, seq_len], and every position
/// is labelled and scored.
///
/// Training sequence i belongs to epoch i / W, where W is the number of windows. An epoch takes
/// every window once. With random sampling, each epoch has a new order and shifts the windows by a
/// random part of the left-over tokens. The test sequences are the same in every run: all windows
/// of the validation text, or n_test of them at even distances, starting with the first.
///
/// The validation text is `validation`, or else the end of the text. Tokenisers learn from the
/// training text alone, except that the characters of the char tokeniser come from both.
struct LmOptions final : TaskOptions {
  std::string text;    ///< path or pattern; several files are joined in the order of their names
  std::string tokens;  ///< path or pattern of token files; this or `text`
  TokenFormat token_format = TokenFormat::automatic;
  std::string validation;  ///< like `text` or `tokens`; empty: validation_fraction of them
  double validation_fraction = 0.1;
  LmTokenizer tokenizer = LmTokenizer::byte;
  std::string tokenizer_model;  ///< path of a SentencePiece model; empty: learn one
  SentencePieceKind pieces = SentencePieceKind::unigram;
  std::int64_t vocab = 0;  ///< token files: bound of all tokens; SentencePiece: pieces to learn
  std::optional<double> bytes_per_token;  ///< of token files, for the bits per byte
  std::int64_t seq_len = 256;
  LmSampling sampling = LmSampling::random;
  std::int64_t n_test = 0;  ///< 0: the whole validation text

  void describe(Schema& schema) override;
  std::vector<DataPlace> places() override;
  /// Checks the settings without reading the files.
  void check(std::uint64_t seed) const override;
  TaskSize least_size() const override;
  /// Throws ConfigError if the settings do not fit together or do not fit the files, Error if a
  /// file cannot be read or holds a token that is not below the vocabulary size. With more than
  /// 2^30 tokens, some are checked only when their sequence is read; the summary says so.
  std::unique_ptr<Task> build(std::uint64_t seed) const override;
  std::unique_ptr<Task> rebuild(std::uint64_t seed, const TokenizerModel& tokenizer) const override;
};

}  // namespace mobius
