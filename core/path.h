// Paths as users write them.
#pragma once

#include <string>

namespace mobius {

/// Replaces a leading `~` or `~user` by the home folder, as a shell does. Returns the path
/// unchanged if there is no such user. `./~...` names a file that begins with `~`.
std::string expand_home(const std::string& path);

}  // namespace mobius
