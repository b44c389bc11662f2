#include "data/utf8.h"

#include <array>

#include "core/error.h"

namespace mobius {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Returns the length that a first byte announces; 0 if it is not a first byte.
std::size_t announced_size(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  if (first >= 0xF0 && first < 0xF5) return 4;
  return 0;
}

}  // namespace

Utf8Character first_character(std::string_view text) {
  if (text.empty()) return {};
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t size = announced_size(first);
  if (size == 0 || text.size() < size) return {};
  if (size == 1) return {first, 1};
  char32_t code = first & (0xFFu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if (!is_continuation(text[i])) return {};
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  constexpr std::array<char32_t, 5> smallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code < 0xE000;
  if (code < smallest[size] || code > 0x10FFFF || is_surrogate) return {};
  return {code, size};
}

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    size = first_character(text.substr(at)).size;
    if (size == 0) return at;
  }
  return text.size();
}

void require_utf8(std::string_view text) {
  const std::size_t at = find_invalid_utf8(text);
  if (at < text.size())
    throw Error("byte {} of the text is not UTF-8; the byte tokenizer reads any file", at);
}

std::size_t character_start(std::string_view text, std::size_t position) {
  constexpr std::size_t most_continuations = 3;
  std::size_t start = position;
  while (start > 0 && start < text.size() && is_continuation(text[start]) &&
         position - start < most_continuations) {
    --start;
  }
  return start < text.size() && is_continuation(text[start]) ? position : start;
}

}  // namespace mobius
