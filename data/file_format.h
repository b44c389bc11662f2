// What files are that hold neither text nor plain tokens.
#pragma once

#include <string_view>

namespace mobius {

/// "a gzip file", where these are the first bytes of one; the same of other formats that data come
/// in. Empty where they are of none that is known.
std::string_view format_of(std::string_view first_bytes);

}  // namespace mobius
