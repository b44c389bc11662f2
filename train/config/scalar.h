// The plain scalars of a configuration, read the same way whatever YAML version they look like.
//
//   1e-4  1E-4  1.e-4  .5  1  +3  numbers, always (YAML 1.1 takes some of them for text)
//   1e3  2.0  0x10                integers too: 1000, 2, 16
//   012  1_000  nan  .inf         refused: readers disagree about them, or no option wants them
//   yes  no  on  off              texts, never booleans
//
// Each reading function throws a ConfigError that says what was expected and what came.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/options/schema.h"

namespace mobius {

bool read_boolean(std::string_view text);

/// Exact: a value that is not whole, or does not fit in 64 bits, is an error, never rounded.
std::int64_t read_integer(std::string_view text);

/// The double nearest to the text. Overflow and underflow to zero are errors.
double read_number(std::string_view text);

/// Reads a value of this type. A text is taken as it is.
OptionValue read_scalar(OptionType type, std::string_view text);

/// Returns a text that two scalars share if they are the same number (1e-3 and 0.001, 16 and 0x10)
/// or the same text. A number and a text never share one.
std::string canonical_scalar(std::string_view text);

/// The text with ASCII capitals made small.
std::string lower_case(std::string text);

}  // namespace mobius
