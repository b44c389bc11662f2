// UTF-8, character by character.
#pragma once

#include <cstddef>
#include <string_view>

namespace mobius {

/// A character in a text: where it begins and how many bytes it takes. 0 bytes: there is none.
struct Utf8Character {
  char32_t code = 0;
  std::size_t size = 0;
};

/// The character at the beginning of the text. None where the text is empty or does not begin with
/// valid UTF-8 (overlong forms, surrogates and numbers above U+10FFFF are not).
Utf8Character first_character(std::string_view text);

/// Where the first byte is that is not part of valid UTF-8; the size of the text where all are.
std::size_t find_invalid_utf8(std::string_view text);

/// Throws Error that names that byte, where there is one.
void require_utf8(std::string_view text);

/// Where the character begins that `position` lies in, or `position` where it is the end.
std::size_t character_start(std::string_view text, std::size_t position);

}  // namespace mobius
