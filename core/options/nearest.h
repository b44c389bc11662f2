// "Did you mean": the known name a misspelt one was probably meant to be.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mobius {

/// The least number of single-character insertions, deletions, replacements and swaps of neighbours
/// that turn `a` into `b` (optimal string alignment distance).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name of `known` that `name` was probably meant to be, the first of equals: the closest,
/// where at most a third of the characters differ (one is always allowed), or else one that
/// contains it or lies in it ("steps" for "max_steps"). Empty where there is none.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// How an error about an unknown name ends: "did you mean 'softmax'?", or, where nothing is close,
/// "known: adamw, sgd".
std::string suggest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace mobius
