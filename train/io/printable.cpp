#include "train/io/printable.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace mobius {
namespace {

// The first character of a text: its code point, or, where the text begins with no character of
// UTF-8, one byte.
struct Character {
  std::size_t size = 1;
  std::uint32_t code = 0;
  bool is_valid = false;
};

Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {1, lead, true};
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  if (size == 1 || lead >= 0xf8 || size > text.size()) return {};
  std::uint32_t code = lead & (0x7fu >> size);
  for (const char c : text.substr(1, size - 1)) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0u) != 0x80u) return {};
    code = code << 6 | (byte & 0x3fu);
  }
  constexpr std::uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < smallest[size] || code > 0x10ffff || is_surrogate) return {};
  return {size, code, true};
}

bool is_control(std::uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

// The line ends of Unicode, and what turns the order of writing round: text behind it would be read
// as other text.
bool is_layout(std::uint32_t code) {
  return (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
         code == 0x200e || code == 0x200f || code == 0x061c;
}

bool is_shown(const Character& character) {
  return character.is_valid && !is_control(character.code) && !is_layout(character.code);
}

constexpr std::size_t longest_word = 256, longest_line = 2000;

// The first place at or after `at` where a character begins, which has at most four bytes.
std::size_t character_border(std::string_view text, std::size_t at) {
  for (int i = 0; i < 3 && at < text.size(); ++i, ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xc0u) != 0x80u) break;
  }
  return at;
}

std::string escape(std::string_view bytes) {
  if (bytes == "\n") return "\\n";
  if (bytes == "\r") return "\\r";
  if (bytes == "\t") return "\\t";
  std::string escaped;
  for (const char c : bytes) escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return escaped;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const Character character = first_character(text);
    const std::string_view bytes = text.substr(0, character.size);
    shown += is_shown(character) ? std::string(bytes) : escape(bytes);
    text.remove_prefix(character.size);
  }
  return shown;
}

std::string printable_line(std::string_view text) {
  const std::string whole = printable(text);
  std::string line;
  for (std::string_view rest = whole; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    line += shortened(rest.substr(0, end), longest_word);
    if (end < rest.size()) line += ' ';
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return shortened(line, longest_line);
}

std::string shortened(std::string_view text, std::size_t most) {
  constexpr std::string_view ellipsis = "...";
  if (text.size() <= most) return std::string(text);
  const std::size_t kept = most - std::min(most, ellipsis.size() + 3);  // 3: of a cut character
  const std::size_t head = character_border(text, kept - kept / 2);
  const std::size_t tail = character_border(text, text.size() - kept / 2);
  return fmt::format("{}{}{}", text.substr(0, head), ellipsis, text.substr(tail));
}

std::string printable_lines(std::string_view text) {
  std::string shown;
  while (true) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    shown += printable_line(text.substr(0, end));
    if (end == text.size()) return shown;
    shown += '\n';
    text.remove_prefix(end + 1);
  }
}

double printable(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

std::size_t find_binary(std::string_view text) {
  const auto is_text = [](char c) {
    return !is_control(static_cast<unsigned char>(c)) || c == '\t' || c == '\n' || c == '\r';
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const Character character = first_character(text.substr(at));
    if (!character.is_valid || (character.size == 1 && !is_text(text[at]))) break;
    at += character.size;
  }
  return at;
}

}  // namespace mobius
