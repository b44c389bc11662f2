// Language modelling: say the next token of a text.
#pragma once

#include "data/task.h"
#include "data/token_source.h"
#include "data/tokenizer.h"

namespace mobius {

enum class LmTokenizer { byte, character, sentencepiece };

/// The order of the windows of an epoch.
enum class LmSampling { random, sequential };

/// Text, read whole and turned into tokens, or files of tokens (data/token_source.h). Sequences are
/// windows of seq_len tokens that lie side by side; inputs and labels are [batch, seq_len], and
/// every position is labelled and scored.
///
/// Training sequence i belongs to epoch i / W, W being the number of windows. An epoch takes every
/// window once; with random sampling in an order of its own, and with the windows moved by a random
/// share of the tokens that are left over. Test sequences are the same in every run: those of the
/// validation text, all or n_test of them at even distances, from its beginning.
///
/// The validation text is `validation`, or else the end of the text. What the tokeniser learns, it
/// learns from the training text; but the characters of the char tokeniser are those of both.
struct LmOptions final : TaskOptions {
  std::string text;    ///< path or pattern; several files are joined in the order of their names
  std::string tokens;  ///< path or pattern of token files; this or `text`
  TokenFormat token_format = TokenFormat::automatic;
  std::string validation;  ///< as the training data; empty: validation_fraction of it
  double validation_fraction = 0.1;
  LmTokenizer tokenizer = LmTokenizer::byte;
  std::string tokenizer_model;  ///< path of a SentencePiece model; empty: learn one
  SentencePieceKind pieces = SentencePieceKind::unigram;
  std::int64_t vocab = 0;  ///< token files: tokens lie below; SentencePiece: pieces to learn
  std::optional<double> bytes_per_token;  ///< of token files, for the bits per byte
  std::int64_t seq_len = 256;
  LmSampling sampling = LmSampling::random;
  std::int64_t n_test = 0;  ///< 0: the whole validation text

  void describe(Schema& schema) override;
  std::vector<DataPlace> places() override;
  /// Looks at the settings alone, not at the files.
  void check(std::uint64_t seed) const override;
  TaskSize least_size() const override;
  /// Throws ConfigError where the settings do not fit together, or not to the files, and Error
  /// where a file cannot be read or holds a token that is not below the vocabulary size. Of more
  /// than 2^30 tokens some are looked at only when their sequence is; the summary says so.
  std::unique_ptr<Task> build(std::uint64_t seed) const override;
  std::unique_ptr<Task> rebuild(std::uint64_t seed, const TokenizerModel& tokenizer) const override;
};

}  // namespace mobius
