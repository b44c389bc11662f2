#include "core/options/validate.h"

#include <fmt/format.h>

#include <string>
#include <variant>

#include "core/error.h"

namespace mobius {
namespace {

// Runs `fn`, naming what it checks in the error it may throw.
template <typename Fn>
void blame(std::string_view name, const std::string& key, Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    throw ConfigError(fmt::format("{}: {}: {}", name, key, error.what()));
  }
}

}  // namespace

void validate(const Schema& schema, std::string_view name) {
  for (const OptionEntry* entry : schema.entries()) {
    if (const auto* field = std::get_if<OptionField>(entry)) {
      blame(name, field->key(), [&] {
        field->verify(field->value());
        field->require_effect();
      });
    } else if (const auto* section = std::get_if<OptionSection>(entry)) {
      validate(section->schema(), fmt::format("{}: {}", name, section->key()));
    } else if (const auto* list = std::get_if<OptionList>(entry)) {
      for (std::size_t i = 0; i < list->size(); ++i)
        validate(*list->element(i), fmt::format("{}: {}[{}]", name, list->key(), i));
    }
  }
  for (const Schema::Check& check : schema.checks()) blame(name, check.key, check.run);
}

}  // namespace mobius
