// Tokenisers convert text to tokens and back.
//
// The model of a tokeniser is what it has learned from a text: its characters or pieces.
// Checkpoints store it: a trained language model can read and write text without its training text.
//
//   const auto tokenizer = make_tokenizer(read_checkpoint_header(path).tokenizer.value());
//   const std::vector<std::int32_t> tokens = tokenizer->encode("To be, or not to be");
//   tokenizer->decode(tokens);  // "To be, or not to be"
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mobius {

/// The serialised state of a tokeniser.
struct TokenizerModel {
  std::string kind;   ///< "byte", "char" or "sentencepiece"
  std::string bytes;  ///< byte: none; char: its characters in the order of their tokens, as UTF-8;
                      ///< sentencepiece: the serialised ModelProto, as in a .model file
  bool operator==(const TokenizerModel&) const = default;
};

/// Every method is const and may be called from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Tokens are 0 .. vocab_size() - 1.
  std::int64_t vocab_size() const { return static_cast<std::int64_t>(texts_.size()); }
  /// Throws Error if the text cannot be encoded: a character is not in the vocabulary, or the bytes
  /// are not UTF-8 and the tokeniser needs characters.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// Whether the token stands for any text outside the vocabulary.
  virtual bool is_unknown(std::int32_t /*token*/) const { return false; }
  /// Returns the concatenated text of the tokens. Single-byte tokens can yield a text that begins
  /// or ends within a character. Throws Error if a token is outside the vocabulary.
  std::string decode(std::span<const std::int32_t> tokens) const;
  virtual TokenizerModel model() const = 0;

 protected:
  std::vector<std::string> texts_;  // of each token
};

/// Makes the tokeniser of this model. Throws Error if the kind is unknown or the model damaged.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerModel& model);

/// Makes a tokeniser with one token for each of the 256 bytes, which can encode any text.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// Makes a tokeniser with one token for each character (code point) of `text`, in the order of code
/// points. Throws Error if the text is empty or not UTF-8.
std::unique_ptr<Tokenizer> make_char_tokenizer(std::string_view text);

/// Makes a tokeniser from a serialised ModelProto, the content of a .model file. Throws Error if
/// `model` is not one or is truncated.
///
/// The tokeniser encodes text in parts and decodes it token by token. It therefore ignores the
/// settings of a model about the beginning and end of a text: it adds no space before it
/// (add_dummy_prefix), removes none (remove_extra_whitespaces) and does not normalise its output.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model);

enum class SentencePieceKind { unigram, bpe };

/// Learns `vocab` subword pieces from all lines of a text (Kudo and Richardson 2018); lines of more
/// than 4 kB are cut before a space. Decoding restores all UTF-8 byte for byte: nothing is
/// normalised, and characters that no piece covers (line ends, tabs, NUL, U+2581, U+2585) are spelt
/// in bytes. The result depends only on the arguments. Throws ConfigError if the text does not have
/// that many pieces, or if `vocab` is too small for its characters, the 256 bytes and 3 special
/// tokens; Error if the text is not UTF-8 or has nothing to learn from.
std::unique_ptr<Tokenizer> train_sentencepiece(std::string_view text, std::int64_t vocab,
                                               SentencePieceKind kind);

}  // namespace mobius
