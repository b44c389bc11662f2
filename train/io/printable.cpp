#include "train/io/printable.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/utf8.h"

namespace mobius {
namespace {

bool is_control(char32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

// Whether the character is a line end of Unicode or changes the direction of writing, which would
// make the text after it read as other text.
bool is_layout(char32_t code) {
  return (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
         code == 0x200e || code == 0x200f || code == 0x061c;
}

constexpr std::size_t longest_word = 256, longest_line = 2000;

// Returns the first place at or after `at` where a character begins; one has at most four bytes.
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
    const Utf8Character character = first_character(text);
    const std::string_view bytes = text.substr(0, std::max<std::size_t>(character.size, 1));
    const char32_t code = character.code;
    const bool is_shown = character.size > 0 && !is_control(code) && !is_layout(code);
    shown += is_shown ? std::string(bytes) : escape(bytes);
    text.remove_prefix(bytes.size());
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
    const Utf8Character character = first_character(text.substr(at));
    if (character.size == 0 || (character.size == 1 && !is_text(text[at]))) break;
    at += character.size;
  }
  return at;
}

}  // namespace mobius
