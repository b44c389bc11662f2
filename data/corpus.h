// The data of a language-modelling task: tokenised text or token files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/lm.h"
#include "data/tokenizer.h"
#include "data/windows.h"

namespace mobius {

struct Corpus {
  std::unique_ptr<Tokenizer> tokenizer;  ///< null for token files
  std::int64_t vocab = 0;                ///< all tokens are below it
  /// Mean of the validation text; empty if unknown or if its tokens do not preserve the text.
  std::optional<double> bytes_per_token;
  std::vector<TokenRange> train;
  std::vector<TokenRange> test;
  std::string summary;                ///< one line that describes both
  std::vector<std::string> warnings;  ///< problems such as text that its tokens do not preserve
};

/// Reads the data that the options name. `stored` is the tokeniser of a checkpoint, if any, and
/// replaces the configured one. Errors begin with the key at fault. Throws ConfigError if the
/// settings do not fit the files, for instance if training and validation share a file; Error if a
/// file cannot be read or holds a token that is not below the vocabulary size.
Corpus read_corpus(const LmOptions& options, const TokenizerModel* stored = nullptr);

}  // namespace mobius
