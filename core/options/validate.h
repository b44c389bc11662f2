// Options checked by their own description, for callers that filled them in without a file.
#pragma once

#include <string_view>
#include <type_traits>

#include "core/options/schema.h"

namespace mobius {

/// Throws ConfigError "name: key: ..." unless every value lies within its described limits and has
/// an effect, and every check passes, here and in the lists and sections below.
void validate(const Schema& schema, std::string_view name);

/// Validates an options struct. One that is known by its base class alone has no defaults to tell a
/// value without effect by: there it may stand.
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
