// Options of the command line whose values are those of a schema: they are read, limited and
// refused as the keys of a configuration are.
#pragma once

#include <memory>
#include <string>

#include "core/options/schema.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace mobius {

/// Adds an option called `names` ("--jobs,-j") for the field `key`, with the field's help, and its
/// default where it has one. A value that the field refuses is a ConfigError that names the option.
CLI::Option* add_value_option(CLI::App& command, const std::shared_ptr<Schema>& schema,
                              const std::string& key, const std::string& names);

/// Adds an option for every field that the options struct describes: "top_k" is --top-k. The struct
/// must outlive the parsing.
void add_value_options(CLI::App& command, const std::shared_ptr<Schema>& schema);

}  // namespace mobius
