// Paths as users write them.
#pragma once

#include <string>

namespace mobius {

/// The path with the home folder in place of a `~` or `~user` that it begins with, as in a shell;
/// as it is where there is no such user. A file whose name begins with `~` is `./~...`.
std::string expand_home(const std::string& path);

}  // namespace mobius
