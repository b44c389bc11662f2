// The tokeniser of SentencePiece, from its model.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer.h"

namespace mobius {

/// `model` is a serialised ModelProto: the content of a .model file. Throws Error where it is not.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model);

}  // namespace mobius
