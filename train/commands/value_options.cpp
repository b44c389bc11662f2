#include "train/commands/value_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <variant>

#include "core/error.h"
#include "train/config/scalar.h"
#include "train/config/writer.h"
#include "train/io/printable.h"

namespace mobius {

namespace {

const OptionField& field_of(const Schema& schema, const std::string& key) {
  return std::get<OptionField>(*schema.find(key));
}

void assign(const OptionField& field, const std::string& option, const std::string& text) {
  try {
    field.assign(read_scalar(field.form().type, text));
  } catch (const ConfigError& error) {
    throw printable_error("{}: {}", option, error.what());
  }
}

std::string placeholder_of(const OptionField& field) {
  return field.form().type == OptionType::integer ? "N" : "X";
}

}  // namespace

CLI::Option* add_value_option(CLI::App& command, const std::shared_ptr<Schema>& schema,
                              const std::string& key, const std::string& names) {
  const OptionField& field = field_of(*schema, key);
  const std::string name = names.substr(0, names.find(','));
  CLI::Option* option = command.add_option_function<std::string>(
      names, [schema, &field, name](const std::string& text) { assign(field, name, text); },
      field.help());
  option->type_name(placeholder_of(field));
  const bool has_default = !std::holds_alternative<std::monostate>(field.initial());
  if (has_default) option->default_str(to_yaml(field.initial()));
  return option;
}

void add_value_options(CLI::App& command, const std::shared_ptr<Schema>& schema) {
  for (const OptionEntry* entry : schema->entries()) {
    std::string name = "--" + key_of(*entry);
    std::replace(name.begin(), name.end(), '_', '-');
    add_value_option(command, schema, key_of(*entry), name);
  }
}

}  // namespace mobius
