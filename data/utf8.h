// UTF-8, character by character.
#pragma once

#include <cstddef>
#include <string_view>

namespace mobius {

/// A code point and its size in bytes; size 0 means that there is none.
struct Utf8Character {
  char32_t code = 0;
  std::size_t size = 0;
};

/// Returns the first character of the text, or none if the text is empty or does not begin with
/// valid UTF-8 (overlong forms, surrogates and code points above U+10FFFF are invalid).
Utf8Character first_character(std::string_view text);

/// Returns the offset of the first byte that is not part of valid UTF-8, or text.size() if none.
std::size_t find_invalid_utf8(std::string_view text);

/// Throws Error naming the first byte that is not part of valid UTF-8, if any.
void require_utf8(std::string_view text);

/// Returns the offset of the character that contains `position`, or `position` at the end of the
/// text.
std::size_t character_start(std::string_view text, std::size_t position);

}  // namespace mobius
