// Work that may end the program, done where only a child ends.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace mobius {

/// What `make` returns, called in a copy of this process: for libraries that end the program where
/// they meet a fault. What it says on standard error is dropped. Nothing where the child does not
/// come to its end. `make` must not rely on threads that run already: the copy has this one alone.
/// Throws Error where there can be no child.
std::optional<std::string> in_child(const std::function<std::string()>& make);

}  // namespace mobius
