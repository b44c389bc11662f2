// "Did you mean": finds the known name that a misspelt name was probably meant to be.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mobius {

/// Returns the least number of single-character insertions, deletions, replacements and swaps of
/// neighbours that turn `a` into `b` (optimal string alignment distance).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the closest name of `known` if at most a third of the characters differ (one is always
/// allowed), else a name that contains `name` or is contained in it ("steps" for "max_steps"). Of
/// equal candidates, returns the first; empty if there is none.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// Returns the end of an error about an unknown name: "did you mean 'softmax'?", or "known: adamw,
/// sgd" if no name is close.
std::string suggest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace mobius
