// The SentencePiece tokeniser.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer.h"

namespace mobius {

/// Makes a tokeniser from a serialised ModelProto, the content of a .model file. Throws Error if
/// `model` is not one or is truncated.
///
/// The tokeniser encodes text in parts and decodes it token by token. It therefore ignores the
/// settings of a model about the beginning and end of a text: it adds no space before it
/// (add_dummy_prefix), removes none (remove_extra_whitespaces) and does not normalise its output.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model);

}  // namespace mobius
