#include "data/tokenizer.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "data/utf8.h"

namespace mobius {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() {
    for (int byte = 0; byte < 256; ++byte) texts_.emplace_back(1, static_cast<char>(byte));
  }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens(text.size());
    std::transform(text.begin(), text.end(), tokens.begin(),
                   [](char byte) { return static_cast<unsigned char>(byte); });
    return tokens;
  }

  TokenizerModel model() const override { return {"byte", ""}; }
};

// Calls fn(code point, its bytes, their offset) for every character. Throws Error if the text is
// not UTF-8.
template <typename Fn>
void for_each_character(std::string_view text, Fn&& fn) {
  require_utf8(text);
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character character = first_character(text.substr(at));
    fn(character.code, text.substr(at, character.size), at);
    at += character.size;
  }
}

class CharTokenizer final : public Tokenizer {
 public:
  explicit CharTokenizer(std::string_view characters) {
    for_each_character(characters, [&](char32_t code, std::string_view bytes, std::size_t) {
      if (!tokens_.emplace(code, static_cast<std::int32_t>(texts_.size())).second) {
        throw Error("char tokenizer: U+{:04X} occurs twice", static_cast<std::uint32_t>(code));
      }
      texts_.emplace_back(bytes);
    });
    if (texts_.empty()) throw Error("char tokenizer: there are no characters");
  }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    tokens.reserve(text.size());
    for_each_character(text, [&](char32_t code, std::string_view bytes, std::size_t at) {
      const auto token = tokens_.find(code);
      if (token == tokens_.end()) {
        throw Error("'{}' (U+{:04X}) at byte {} is not among the {} characters of the tokenizer",
                    bytes, static_cast<std::uint32_t>(code), at, vocab_size());
      }
      tokens.push_back(token->second);
    });
    return tokens;
  }

  TokenizerModel model() const override {
    std::string characters;
    for (const std::string& text : texts_) characters += text;
    return {"char", characters};
  }

 private:
  std::unordered_map<char32_t, std::int32_t> tokens_;
};

}  // namespace

std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= vocab_size())
      throw Error("tokenizer: token {} is not below the vocabulary size {}", token, vocab_size());
    text += texts_[static_cast<std::size_t>(token)];
  }
  return text;
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> make_char_tokenizer(std::string_view text) {
  std::set<std::pair<char32_t, std::string_view>> characters;
  for_each_character(text, [&](char32_t code, std::string_view bytes, std::size_t) {
    characters.emplace(code, bytes);
  });
  std::string ordered;
  for (const auto& [code, bytes] : characters) ordered += bytes;
  return std::make_unique<CharTokenizer>(ordered);
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerModel& model) {
  if (model.kind == "byte") return make_byte_tokenizer();
  if (model.kind == "char") return std::make_unique<CharTokenizer>(model.bytes);
  if (model.kind == "sentencepiece") return make_sentencepiece_tokenizer(model.bytes);
  throw Error("tokenizer: unknown kind '{}'", model.kind);
}

}  // namespace mobius
