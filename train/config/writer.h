// What a Schema says, as text: the resolved configuration, and the help of every key.
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

/// One value as it stands in to_yaml: "3", "1.0e-04", "null", "[1, 2]", "\"no\"".
std::string to_yaml(const OptionValue& value);

/// Every key with type, default, range and meaning, under a title per section: a line each, or
/// where that is wider than `width` columns, a few. A section that chooses among kinds is followed
/// by the keys of each of its kinds. With `about`, the dotted path of a section, a kind
/// ("attention.kind=softmax") or a key, of that alone; a ConfigError where there is none. For
/// schemas that nothing has been read into: the default of a list of sections is what it holds now.
std::string help_text(const std::vector<const Schema*>& schemas, const std::string& about = "",
                      std::size_t width = std::numeric_limits<std::size_t>::max());

}  // namespace mobius
