// Checks options that a program has set, by their description.
#pragma once

#include <string_view>
#include <type_traits>

#include "core/options/schema.h"

namespace mobius {

/// Throws ConfigError "name: key: ..." unless every value is within its limits and has an effect
/// and every check passes, including those of lists and sections.
void validate(const Schema& schema, std::string_view name);

/// Validates an options struct. If only its abstract base is known, there are no defaults to
/// compare with, and a value without effect is accepted.
template <typename Options>
void validate_options(const Options& options, std::string_view name) {
  // A schema could change what it describes; validate() only reads.
  auto& described = const_cast<Options&>(options);
  if constexpr (std::is_default_constructible_v<Options>) {
    validate(*describe_filled(described), name);
  } else {
    validate(*describe(described), name);
  }
}

}  // namespace mobius
