// Options checked by their own description, for callers that filled them in without a file.
#pragma once

#include <string_view>

#include "core/options/schema.h"

namespace mobius {

/// Throws ConfigError "name: key: ..." unless every value lies within its described limits and
/// every check passes, here and in the lists and sections below.
void validate(const Schema& schema, std::string_view name);

/// The limits of the values alone, without the checks: for options that a program has filled in,
/// where a value that nothing reads does no harm.
void validate_values(const Schema& schema, std::string_view name);

/// The same two for an options struct, which stays as it is.
template <typename Options>
void validate_options(Options options, std::string_view name) {
  Schema schema;
  options.describe(schema);
  validate(schema, name);
}
template <typename Options>
void validate_option_values(Options options, std::string_view name) {
  Schema schema;
  options.describe(schema);
  validate_values(schema, name);
}

}  // namespace mobius
