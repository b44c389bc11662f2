#include "train/config/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/options/nearest.h"
#include "train/config/scalar.h"
#include "train/io/printable.h"

namespace mobius {
namespace {

using Kind = ConfigNode::Kind;

// A section: its node (null if the document does not mention it), the place to report missing keys
// at, and its dotted path.
struct Place {
  const ConfigNode* node;
  std::string where;
  std::string path;
};

const ConfigEntry* find_in(const Place& place, std::string_view key) {
  return place.node == nullptr ? nullptr : place.node->find(key);
}

Place below(const Place& place, std::string_view key) {
  const std::string path = join_path(place.path, key);
  const ConfigEntry* entry = find_in(place, key);
  return entry == nullptr ? Place{nullptr, place.where, path}
                          : Place{&entry->value, entry->where, path};
}

OptionValue read_scalar(OptionType type, const ConfigNode& node) {
  if (type != OptionType::text && node.is_quoted) {
    throw printable_error("expected {}, got the quoted text '{}': remove the quotes",
                          type == OptionType::boolean   ? "true or false"
                          : type == OptionType::integer ? "integer"
                                                        : "number",
                          node.text);
  }
  return read_scalar(type, node.text);
}

template <typename T>
OptionValue read_elements(OptionType type, const ConfigNode& list) {
  std::vector<T> values;
  for (const ConfigEntry& element : list.entries) {
    if (element.value.kind != Kind::scalar) {
      throw printable_error("element {} must be a single value, got {}", element.key,
                            describe(element.value));
    }
    values.push_back(std::get<T>(read_scalar(type, element.value)));
  }
  return values;
}

// Reads the value of a field. Errors do not name the place.
OptionValue read_value(const OptionField& field, const ConfigNode& node) {
  if (node.kind == Kind::null) return OptionValue{};
  const OptionForm& form = field.form();
  if (node.kind != (form.is_list ? Kind::list : Kind::scalar)) {
    throw printable_error("expected {}, got {}", field.type_name(), describe(node));
  }
  if (!form.is_list) return read_scalar(form.type, node);
  if (form.type == OptionType::integer) return read_elements<std::int64_t>(form.type, node);
  if (form.type == OptionType::number) return read_elements<double>(form.type, node);
  return read_elements<std::string>(form.type, node);  // no member is a list of booleans
}

std::vector<std::string> keys_of(const Schema& schema) {
  std::vector<std::string> keys;
  for (const OptionEntry* entry : schema.entries()) keys.push_back(key_of(*entry));
  return keys;
}

// Appends the paths of all keys called `key` below `schema`.
void find_elsewhere(const Schema& schema, const std::string& path, std::string_view key,
                    std::vector<std::string>& found) {
  for (const OptionEntry* entry : schema.entries()) {
    const std::string entry_path = join_path(path, key_of(*entry));
    if (key_of(*entry) == key) found.push_back(entry_path);
    if (const auto* section = std::get_if<OptionSection>(entry)) {
      find_elsewhere(section->schema(), entry_path, key, found);
    }
  }
}

class Reader {
 public:
  Reader(const ConfigDocument& document, const Schema& root) : document_(document), root_(root) {}

  void read_section(const Place& place, Schema& schema) {
    if (place.node != nullptr && place.node->kind != Kind::map) {
      const bool is_null = place.node->kind == Kind::null;
      report(place.node->where, place.path, "expected a section of key: value, got {}{}",
             describe(*place.node), is_null ? "; for the defaults leave it out" : "");
      return;
    }
    if (!choose_variants(place, schema)) return;
    if (place.node != nullptr) read_entries(place, schema);
    for (const OptionEntry* option : schema.entries()) {
      if (find_in(place, key_of(*option)) == nullptr) leave_out(place, *option);
    }
  }

  // Checks the sections below first, since the checks of a section may rely on them.
  void run_checks(const Place& place, const Schema& schema) {
    const std::size_t errors_before = errors_.size();
    for (const OptionEntry& option : schema.described()) check_below(place, option);
    if (errors_.size() > errors_before) return;
    for (const OptionEntry& option : schema.described()) {
      const auto* field = std::get_if<OptionField>(&option);
      if (field != nullptr) run_check(place, {field->key(), [&] { field->require_effect(); }});
    }
    for (const Schema::Check& check : schema.checks()) run_check(place, check);
  }

  bool has_errors() const { return !errors_.empty(); }
  void throw_errors() const {
    if (!has_errors()) return;
    throw ConfigError("{}{}", fmt::join(errors_, "; also "), has_enough() ? "; and so on" : "");
  }

 private:
  // People fix a few faults at a time. A file that is not a configuration may have a hundred
  // thousand, each with a costly search for what was meant.
  bool has_enough() const { return errors_.size() >= 8; }

  template <typename... Parts>
  void report(const std::string& where, const std::string& path,
              fmt::format_string<Parts...> format, Parts&&... parts) {
    const std::string problem = fmt::format(format, std::forward<Parts>(parts)...);
    errors_.push_back(printable(path.empty() ? fmt::format("{}: {}", where, problem)
                                             : fmt::format("{}: {}: {}", where, path, problem)));
  }

  void run_check(const Place& place, const Schema::Check& check) {
    try {
      check.run();
    } catch (const Error& error) {
      const Place blamed = walk(place, check.key);
      report(blamed.where, blamed.path, "{}", error.what());
    }
  }

  // Chooses the kinds that the section names, since the other keys depend on them. Returns false if
  // a name is wrong: nothing is known about the other keys then.
  bool choose_variants(const Place& place, Schema& schema) {
    for (OptionEntry& option : schema.described()) {
      auto* variant = std::get_if<OptionVariant>(&option);
      if (variant == nullptr) continue;
      if (const ConfigEntry* entry = find_in(place, variant->key())) {
        if (!choose(join_path(place.path, entry->key), entry->value, *variant)) return false;
      }
      if (!choose_variants(place, variant->active())) return false;
    }
    return true;
  }

  bool choose(const std::string& path, const ConfigNode& node, OptionVariant& variant) {
    if (node.kind != Kind::scalar) {
      report(node.where, path, "expected a name, got {}", describe(node));
      return false;
    }
    try {
      variant.choose(node.text);
      return true;
    } catch (const ConfigError& error) {
      report(node.where, path, "{}", error.what());
      return false;
    }
  }

  void read_entries(const Place& place, const Schema& schema) {
    for (const ConfigEntry& entry : place.node->entries) {
      if (has_enough()) return;
      const std::string path = join_path(place.path, entry.key);
      const OptionEntry* option = schema.find(entry.key);
      if (option == nullptr) {
        report(entry.where, path, "{}", explain_unknown(place, entry.key, schema));
      } else if (const auto* field = std::get_if<OptionField>(option)) {
        read_field(path, entry.value, *field);
      } else if (const auto* section = std::get_if<OptionSection>(option)) {
        read_section(below(place, entry.key), section->schema());
      } else if (const auto* list = std::get_if<OptionList>(option)) {
        read_list(below(place, entry.key), *list);
      }  // variants are chosen before
    }
  }

  void read_field(const std::string& path, const ConfigNode& node, const OptionField& field) {
    try {
      field.assign(read_value(field, node));
    } catch (const ConfigError& error) {
      report(node.where, path, "{}", error.what());
    }
  }

  void read_list(const Place& place, const OptionList& list) {
    const std::vector<ConfigEntry>& elements = place.node->entries;
    if (place.node->kind != Kind::list) {
      report(place.node->where, place.path, "expected a list of sections, got {}",
             describe(*place.node));
      return;
    }
    list.reset(elements.size());
    for (std::size_t i = 0; i < elements.size() && !has_enough(); ++i) {
      read_section(below(place, elements[i].key), *list.element(i));
    }
  }

  // Reads a section that is left out for its defaults, and reports what has no default.
  void leave_out(const Place& place, const OptionEntry& option) {
    const std::string path = join_path(place.path, key_of(option));
    const auto* field = std::get_if<OptionField>(&option);
    if (const auto* section = std::get_if<OptionSection>(&option)) {
      read_section(below(place, section->key()), section->schema());
    } else if (field != nullptr && field->is_required()) {
      report(place.where, path, "missing, and it has no default ({})", field->help());
    } else if (const auto* variant = std::get_if<OptionVariant>(&option);
               variant != nullptr && variant->current().empty()) {
      std::vector<std::string> names;
      for (const OptionVariant::Kind& kind : variant->kinds()) names.push_back(kind.name);
      report(place.where, path, "missing, and it has no default; known: {}",
             fmt::join(names, ", "));
    }
  }

  // Says why `key` is not a key of the schema, and what was probably meant.
  std::string explain_unknown(const Place& place, const std::string& key,
                              const Schema& schema) const {
    if (key.find('.') != std::string::npos) {
      return "unknown key; dotted paths are for overrides, in a file sections are nested";
    }
    if (const auto foreign = explain_foreign(place, key, schema)) return *foreign;
    const std::string meant = nearest_name(key, keys_of_all_kinds(schema));
    if (!meant.empty()) {
      return fmt::format("unknown key; did you mean '{}'?", join_path(place.path, meant));
    }
    std::vector<std::string> elsewhere;
    find_elsewhere(root_, "", key, elsewhere);
    if (!elsewhere.empty()) {
      return fmt::format("unknown key; did you mean '{}'?", fmt::join(elsewhere, "' or '"));
    }
    return fmt::format("unknown key; known here: {}", fmt::join(keys_of(schema), ", "));
  }

  // Explains a key that belongs to a kind the section did not choose.
  std::optional<std::string> explain_foreign(const Place& place, const std::string& key,
                                             const Schema& schema) const {
    for (const OptionEntry* option : schema.entries()) {
      const auto* variant = std::get_if<OptionVariant>(option);
      if (variant == nullptr) continue;
      std::vector<std::string> owners;
      for (const OptionVariant::Kind& kind : variant->kinds()) {
        if (variant->preview(kind.name).schema->find(key) != nullptr) owners.push_back(kind.name);
      }
      if (owners.empty()) continue;
      return fmt::format("not an option of {} {}; it belongs to: {}{}",
                         join_path(place.path, variant->key()),
                         variant->current().empty() ? "(not chosen)" : variant->current(),
                         fmt::join(owners, ", "), explain_replacing(place, key, *variant));
    }
    return std::nullopt;
  }

  // Advises how an override replaces a section whose kind it changed but whose keys stayed.
  std::string explain_replacing(const Place& place, const std::string& key,
                                const OptionVariant& variant) const {
    const ConfigEntry* kind = find_in(place, variant.key());
    if (place.path.empty() || kind == nullptr || !document_.is_override(kind->where)) return "";
    if (document_.is_override(find_in(place, key)->where)) return "";
    return fmt::format("; for another section in its place give '{}={{{}: {}}}'", place.path,
                       variant.key(), variant.current());
  }

  static std::vector<std::string> keys_of_all_kinds(const Schema& schema) {
    std::vector<std::string> keys = keys_of(schema);
    for (const OptionEntry* option : schema.entries()) {
      const auto* variant = std::get_if<OptionVariant>(option);
      if (variant == nullptr) continue;
      for (const OptionVariant::Kind& kind : variant->kinds()) {
        const std::vector<std::string> more = keys_of(*variant->preview(kind.name).schema);
        keys.insert(keys.end(), more.begin(), more.end());
      }
    }
    return keys;
  }

  void check_below(const Place& place, const OptionEntry& option) {
    if (const auto* section = std::get_if<OptionSection>(&option)) {
      run_checks(below(place, section->key()), section->schema());
    } else if (const auto* variant = std::get_if<OptionVariant>(&option)) {
      run_checks(place, variant->active());
    } else if (const auto* list = std::get_if<OptionList>(&option)) {
      const Place here = below(place, list->key());
      for (std::size_t i = 0; i < list->size(); ++i) {
        run_checks(below(here, std::to_string(i)), *list->element(i));
      }
    }
  }

  static Place walk(Place place, std::string_view path) {
    while (!path.empty()) {
      const std::size_t dot = std::min(path.find('.'), path.size());
      place = below(place, path.substr(0, dot));
      path.remove_prefix(std::min(dot + 1, path.size()));
    }
    return place;
  }

  const ConfigDocument& document_;
  const Schema& root_;
  std::vector<std::string> errors_;
};

}  // namespace

void read_config(const ConfigDocument& document, Schema& schema) {
  const Place root{&document.root(), document.root().where, ""};
  Reader reader(document, schema);
  reader.read_section(root, schema);
  if (!reader.has_errors()) reader.run_checks(root, schema);
  reader.throw_errors();
}

}  // namespace mobius
