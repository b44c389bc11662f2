// Recognises files that hold neither text nor plain tokens.
#pragma once

#include <string_view>

namespace mobius {

/// Names the format of a file by its first bytes, such as "a gzip file". Empty if unknown.
std::string_view format_of(std::string_view first_bytes);

}  // namespace mobius
