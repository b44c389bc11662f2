// Makes text and numbers from outside fit to be shown.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace mobius {

/// Writes every control character, and every byte that is no UTF-8, as \n, \x1b, ...: the text
/// stays whole and on its line, and cannot steer a terminal.
std::string printable(std::string_view text);
/// Makes one line of bounded length, for people to read: a word (a name, a path, a value) of more
/// than 256 characters loses its middle, and so does a line of more than 2000.
std::string printable_line(std::string_view text);
/// Applies printable_line() to each line.
std::string printable_lines(std::string_view text);
/// Returns the text, or if it has more than `most` characters, its beginning and end around "...".
std::string shortened(std::string_view text, std::size_t most);

/// Returns the number; a NaN loses its sign, which means nothing and would show as "-nan".
double printable(double value);

/// Returns the place of the first byte that no text file has (an ASCII control character other than
/// tabs and line ends, or a byte that is no UTF-8), or the size of the text.
std::size_t find_binary(std::string_view text);

/// Returns a ConfigError whose message repeats what the user wrote.
template <typename... Parts>
ConfigError printable_error(fmt::format_string<Parts...> format, Parts&&... parts) {
  return ConfigError(printable(fmt::format(format, std::forward<Parts>(parts)...)));
}

}  // namespace mobius
