// The tokeniser of SentencePiece, from its model.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer.h"

namespace mobius {

/// `model` is a serialised ModelProto: the content of a .model file. Throws Error where it is not,
/// or not a whole one.
///
/// Text is given to it in parts, and comes from it token by token. Hence what a model says of the
/// beginning and the end of a text is not followed: no space is put before it (add_dummy_prefix),
/// none is removed (remove_extra_whitespaces), and what comes out is not normalised.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model);

}  // namespace mobius
