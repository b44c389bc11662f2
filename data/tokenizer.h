// Tokenisers: text to tokens, and back.
//
// What a tokeniser has learned from a text (its characters, its pieces) is its model. Checkpoints
// carry it, so that a trained language model reads and writes text without its training text:
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

/// All that makes up a tokeniser, as bytes.
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
  virtual std::int64_t vocab_size() const = 0;
  /// Throws Error on text that has no tokens: a character that is not in the vocabulary, or bytes
  /// that are not UTF-8 where characters are asked for.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// Whether the token stands for text that the vocabulary has no token for, whatever it is.
  virtual bool is_unknown(std::int32_t /*token*/) const { return false; }
  /// The text of the tokens, one after the other. Tokens of single bytes can make a text that ends,
  /// or begins, within a character. Throws Error on a token outside the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
  virtual TokenizerModel model() const = 0;

 protected:
  /// Throws Error unless the token is in the vocabulary.
  void check_token(std::int32_t token) const;
};

/// The tokeniser that has this model. Throws Error on an unknown kind or a damaged model.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerModel& model);

/// A token a byte, 256 of them; every text has tokens.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// A token a character (code point) of `text`, in the order of their numbers. Throws Error where
/// the text is empty or not UTF-8.
std::unique_ptr<Tokenizer> make_char_tokenizer(std::string_view text);

enum class SentencePieceKind { unigram, bpe };

/// Learns `vocab` pieces of words from the lines of a text (Kudo and Richardson 2018), all of it:
/// lines of more than 4 kB are cut before a space. All UTF-8 comes back from its tokens byte for
/// byte: nothing is normalised, and what no piece covers (line ends, tabs, NUL, U+2581, U+2585) is
/// spelt in bytes. Depends on its arguments alone. Throws ConfigError where the text does not have
/// that many pieces, or `vocab` leaves no room for its characters beside the 256 bytes and 3
/// special tokens; Error where the text is not UTF-8 or there is nothing to learn in it.
std::unique_ptr<Tokenizer> train_sentencepiece(std::string_view text, std::int64_t vocab,
                                               SentencePieceKind kind);

}  // namespace mobius
