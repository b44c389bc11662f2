// Writes what a Schema holds as text: the resolved configuration, and the help of every key.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "core/options/schema.h"

namespace mobius {

/// The values of all members as YAML, in the order of description. It reads back to the identical
/// values (doubles have the fewest digits that do), and YAML 1.1 and 1.2 readers agree about it.
std::string to_yaml(const Schema& schema);

/// Writes one value as the YAML above does: "3", "1.0e-04", "null", "[1, 2]", "\"no\"".
std::string to_yaml(const OptionValue& value);

/// Lists every key with type, default, range and meaning, under a title per section: one line each,
/// or several if one would be wider than `width` columns. The keys of each kind follow a section
/// that chooses among kinds. `about` limits the list to the dotted path of a section, a kind
/// ("attention.kind=softmax") or a key; an unknown one is a ConfigError. Nothing may have been read
/// into the schemas, since the default of a list of sections is what it holds now.
std::string help_text(const std::vector<const Schema*>& schemas, const std::string& about = "",
                      std::size_t width = std::numeric_limits<std::size_t>::max());

}  // namespace mobius
