// Text and numbers from outside, made fit to be shown.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace mobius {

/// The text with every control character, and every byte that is no UTF-8, written as \n, \x1b,
/// ...: it stays on its line, is not cut short, and cannot steer a terminal.
std::string printable(std::string_view text);
/// The same for people to read, on one line of bounded length: a word (a name, a path, a value) of
/// more than 256 characters loses its middle, and so does a line of more than 2000.
std::string printable_line(std::string_view text);
/// The same, line by line.
std::string printable_lines(std::string_view text);
/// The text, or where it has more than `most` characters, its beginning and its end, with "..."
/// between them.
std::string shortened(std::string_view text, std::size_t most);

/// The number; a NaN without its sign, which says nothing and would show as "-nan".
double printable(double value);

/// Where the first byte is that no text file has: a control character of ASCII other than tabs and
/// line ends, or one that is no UTF-8. The size of the text where there is none.
std::size_t find_binary(std::string_view text);

/// A ConfigError whose message repeats what the user wrote.
template <typename... Parts>
ConfigError printable_error(fmt::format_string<Parts...> format, Parts&&... parts) {
  return ConfigError(printable(fmt::format(format, std::forward<Parts>(parts)...)));
}

}  // namespace mobius
