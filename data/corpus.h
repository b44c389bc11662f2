// The data of a language-modelling task: texts as tokens, or files of tokens.
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
  std::unique_ptr<Tokenizer> tokenizer;  ///< null for files of tokens
  std::int64_t vocab = 0;                ///< tokens lie below it
  /// Of the validation text; nothing where it is not known, or its tokens do not keep all of it.
  std::optional<double> bytes_per_token;
  std::vector<TokenRange> train;
  std::vector<TokenRange> test;
  std::string summary;                ///< a line on both
  std::vector<std::string> warnings;  ///< what of a text its tokens do not keep, and the like
};

/// Reads what the options name; with the tokeniser of a checkpoint, where there is one, instead of
/// one of its own. Errors begin with the key that is at fault. Throws ConfigError where the
/// settings do not fit the files, as where training and validation share one; Error where a file
/// cannot be read or holds a token that is not below the vocabulary size.
Corpus read_corpus(const LmOptions& options, const TokenizerModel* stored = nullptr);

}  // namespace mobius
