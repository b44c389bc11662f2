#include "train/compare/comparison_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

#include "core/path.h"
#include "train/compare/comparison_output.h"
#include "train/config/scalar.h"
#include "train/io/printable.h"
#include "train/run/run_folder.h"

namespace mobius {

namespace {

using Kind = ConfigNode::Kind;

// One key of the grid.
struct GridAxis {
  std::string key;  // a dotted path
  std::string where;
  ConfigNode values;        // a list
  std::string name_of_key;  // in the names of jobs; empty if the value says enough
};

bool is_of_a_name(unsigned char c) {
  return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
}

// Whether a comparison or a run writes something of this name itself. Some file systems do not tell
// capitals from small letters.
bool is_taken(const std::string& name) {
  const RunFolder run("");
  const std::string lower = lower_case(name);
  const std::vector<std::filesystem::path> taken = {
      comparison_csv, comparison_json,   comparison_page,      run.config(), run.metrics(),
      run.summary(),  run.checkpoints(), run.attention_maps(), run.log(),    run.tensorboard()};
  return is_temporary(lower) || std::find(taken.begin(), taken.end(), lower) != taken.end();
}

// Throws unless a folder may have the name. `where` and `path` are the place to blame.
void require_run_name(const std::string& name, const std::string& where, const std::string& path) {
  constexpr std::size_t longest = 200;  // file systems take 255 bytes
  if (name.starts_with('-')) {
    throw printable_error("{}: {}: '{}' begins with '-', as options do", where, path, name);
  }
  if (is_taken(name)) {
    throw printable_error("{}: {}: '{}' is the name of what a comparison or a run writes itself",
                          where, path, name);
  }
  if (name.size() > longest) {
    throw printable_error("{}: {}: makes a run's name of {} characters, more than {}: '{}'", where,
                          path, name.size(), longest, name);
  }
}

void require_folder_name(const ConfigNode& node, const std::string& path) {
  const bool is_valid = node.kind == Kind::scalar && !node.text.empty() &&
                        node.text.front() != '.' &&
                        std::all_of(node.text.begin(), node.text.end(), is_of_a_name);
  if (!is_valid) {
    throw printable_error("{}: {}: expected a name of letters, digits, '.', '_' and '-', got '{}'",
                          node.where, path, node.text);
  }
  require_run_name(node.text, node.where, path);
}

bool is_own_key(std::string_view path) {
  const std::string_view first = path.substr(0, path.find('.'));
  return std::find(comparison_keys.begin(), comparison_keys.end(), first) != comparison_keys.end();
}

// Returns the configuration that the jobs start from. An override replaces values of either file.
ConfigDocument base_of(const ConfigDocument& comparison) {
  ConfigDocument own = comparison;
  for (const std::string_view key : comparison_keys) own.remove(key);
  const ConfigEntry* base = comparison.root().find("base");
  if (base == nullptr) return own;
  if (base->value.kind != Kind::scalar) {
    throw printable_error("{}: base: expected a file name, got {}", base->value.where,
                          describe(base->value));
  }
  ConfigDocument document =
      ConfigDocument::from_file(comparison.folder() / expand_home(base->value.text));
  if (const ConfigEntry* entry = find_comparison_key(document)) {
    throw printable_error("{}: base: expected the configuration of a run, but '{}' has {} at {}",
                          base->value.where, document.name(), entry->key, entry->where);
  }
  document.merge(own.root());
  for (const ConfigEntry& entry : comparison.overrides()) {
    if (!is_own_key(entry.key)) document.override_with(entry);
  }
  return document;
}

ComparisonJob expand(const ConfigDocument& base, const ConfigEntry& element) {
  const std::string path = join_path("variations", element.key);
  if (element.value.kind != Kind::map) {
    throw printable_error("{}: {}: expected a map with a name and overrides, got {}", element.where,
                          path, describe(element.value));
  }
  const ConfigEntry* name = element.value.find("name");
  if (name == nullptr) throw printable_error("{}: {}.name: missing", element.where, path);
  require_folder_name(name->value, join_path(path, "name"));
  ConfigNode overrides = element.value;
  std::erase_if(overrides.entries, [](const ConfigEntry& entry) { return entry.key == "name"; });
  ComparisonJob job{name->value.text, base};
  job.document.merge(overrides);
  return job;
}

// Returns the jobs before the grid is applied: the variations, or the base alone.
std::vector<ComparisonJob> read_variations(const ConfigDocument& comparison) {
  const ConfigDocument base = base_of(comparison);
  const ConfigEntry* list = comparison.root().find("variations");
  if (list == nullptr) return {{"", base}};
  if (list->value.kind != Kind::list || list->value.entries.empty()) {
    throw printable_error("{}: variations: expected a list of named variations", list->value.where);
  }
  std::vector<ComparisonJob> jobs;
  std::map<std::string, std::string> names;
  for (const ConfigEntry& element : list->value.entries) {
    ComparisonJob job = expand(base, element);
    const auto [other, is_new] = names.emplace(lower_case(job.name), job.name);
    if (!is_new) {
      throw printable_error("{}: variations.{}.name: '{}' is given twice{}",
                            element.value.find("name")->value.where, element.key, job.name,
                            other->second == job.name ? "" : ", but for capitals");
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::string name_part_of(const ConfigNode& value) {
  if (value.kind == Kind::null) return "null";
  if (value.kind == Kind::scalar) return value.text;
  std::string text;
  for (const ConfigEntry& element : value.entries) {
    text += (text.empty() ? "" : "_") + name_part_of(element.value);
  }
  return text;
}

// Returns a text that equal values of a grid share: 1e-3 and 0.001.
std::string canonical(const ConfigNode& value) {
  if (value.kind == Kind::null) return "null";
  if (value.kind == Kind::scalar) {
    return value.is_quoted ? fmt::format("'{}'", value.text) : canonical_scalar(value.text);
  }
  std::string text = "[";
  for (const ConfigEntry& element : value.entries) text += canonical(element.value) + ", ";
  return text + "]";
}

void require_distinct_values(const ConfigEntry& entry, const std::string& path) {
  std::map<std::string, const ConfigEntry*> seen;
  for (const ConfigEntry& value : entry.value.entries) {
    const auto [place, is_new] = seen.emplace(canonical(value.value), &value);
    if (is_new) continue;
    const std::string text = name_part_of(value.value), first = name_part_of(place->second->value);
    throw printable_error("{}: grid.{}: {} is given twice, first at {}{}", value.where, path, text,
                          place->second->where, first == text ? "" : " as " + first);
  }
}

void require_grid_values(const ConfigEntry& entry, const std::string& path) {
  if (entry.value.kind != Kind::list || entry.value.entries.empty()) {
    throw printable_error("{}: grid.{}: expected a list of values, got {}", entry.value.where, path,
                          entry.value.kind == Kind::list ? "an empty one" : describe(entry.value));
  }
  for (const ConfigEntry& value : entry.value.entries) {
    if (value.value.kind != Kind::map) continue;
    throw printable_error(
        "{}: grid.{}.{}: a value of the grid is no section; name it in variations", value.where,
        path, value.key);
  }
  require_distinct_values(entry, path);
}

// Appends the grid's keys with their lists, also those in nested maps.
void read_axes(const ConfigNode& node, const std::string& path, std::vector<GridAxis>& axes) {
  for (const ConfigEntry& entry : node.entries) {
    const std::string key = join_path(path, entry.key);
    if (entry.value.kind == Kind::map && !entry.value.entries.empty()) {
      read_axes(entry.value, key, axes);
      continue;
    }
    require_grid_values(entry, key);
    for (const GridAxis& other : axes) {
      if (other.key != key) continue;
      throw printable_error("{}: grid.{}: given twice, first at {}", entry.where, key, other.where);
    }
    axes.push_back({key, entry.where, entry.value, ""});
  }
}

// Names contain the last part of a key if no other key of the grid ends alike, else the whole key.
// A key whose values are names of kinds does not appear.
void name_keys(std::vector<GridAxis>& axes) {
  const auto last_part = [](const std::string& key) { return key.substr(key.rfind('.') + 1); };
  std::map<std::string, int> count;
  for (const GridAxis& axis : axes) ++count[last_part(axis.key)];
  for (GridAxis& axis : axes) {
    const std::string part = last_part(axis.key);
    const bool is_kind = part == "kind" || part == "name";
    if (!is_kind) axis.name_of_key = count[part] == 1 ? part : axis.key;
  }
}

std::vector<GridAxis> read_grid(const ConfigDocument& comparison) {
  const ConfigEntry* grid = comparison.root().find("grid");
  if (grid == nullptr) return {};
  if (grid->value.kind != Kind::map || grid->value.entries.empty()) {
    throw printable_error("{}: grid: expected keys with lists of values, got {}", grid->value.where,
                          describe(grid->value));
  }
  std::vector<GridAxis> axes;
  read_axes(grid->value, "", axes);
  name_keys(axes);
  const auto rank = [](const GridAxis& axis) {
    return axis.key == seed_key ? 2 : axis.key == learning_rate_key ? 1 : 0;
  };
  std::stable_sort(axes.begin(), axes.end(),
                   [&](const GridAxis& a, const GridAxis& b) { return rank(a) < rank(b); });
  return axes;
}

// Returns the name of a job with one more value.
std::string extended_name(const std::string& name, const GridAxis& axis, const ConfigNode& value) {
  std::string text = name_part_of(value);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return !is_of_a_name(c) && c != '+'; }, '_');
  const std::string part = axis.name_of_key.empty() ? text : axis.name_of_key + "=" + text;
  return name.empty() ? part : name + "-" + part;
}

std::vector<ComparisonJob> multiply(const std::vector<ComparisonJob>& jobs, const GridAxis& axis) {
  std::vector<ComparisonJob> product;
  for (const ComparisonJob& job : jobs) {
    for (const ConfigEntry& value : axis.values.entries) {
      ComparisonJob& next =
          product.emplace_back(extended_name(job.name, axis, value.value), job.document);
      const ConfigEntry entry{axis.key, axis.where, value.value};
      next.document.merge({.kind = Kind::map, .where = axis.where, .entries = {entry}});
    }
  }
  return product;
}

// Refuses more runs than anyone trains, which would take all memory first.
void require_few(const ConfigDocument& comparison, const std::vector<GridAxis>& axes) {
  constexpr double most = 10000;
  const auto require = [most](double count, const std::string& where, const std::string& path) {
    if (count <= most) return;
    throw printable_error("{}: {}: makes {:.6g} runs, more than {}", where, path, count, most);
  };
  const ConfigEntry* list = comparison.root().find("variations");
  double count = list == nullptr ? 1 : static_cast<double>(list->value.entries.size());
  if (list != nullptr) require(count, list->where, "variations");
  for (const GridAxis& axis : axes) {
    count *= static_cast<double>(axis.values.entries.size());
    require(count, axis.where, "grid." + axis.key);
  }
}

void require_names(const std::vector<ComparisonJob>& jobs, const GridAxis& axis) {
  std::map<std::string, std::string> names;
  for (const ComparisonJob& job : jobs) {
    require_run_name(job.name, axis.where, "grid." + axis.key);
    const auto [other, is_new] = names.emplace(lower_case(job.name), job.name);
    if (is_new) continue;
    throw printable_error("{}: grid.{}: makes two runs named '{}'{}", axis.where, axis.key,
                          other->second,
                          other->second == job.name ? "" : fmt::format(" and '{}'", job.name));
  }
}

// Appends the values below an entry, by dotted path.
void collect_leaves(const ConfigEntry& entry, std::vector<ConfigEntry>& leaves) {
  if (entry.value.kind != Kind::map) {
    leaves.push_back(entry);
    return;
  }
  for (ConfigEntry below : entry.value.entries) {
    below.key = join_path(entry.key, below.key);
    collect_leaves(below, leaves);
  }
}

// Returns the place of the value at a dotted path, or "" if there is none.
std::string place_of(const ConfigNode& root, std::string_view path) {
  const ConfigNode* node = &root;
  while (true) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    const ConfigEntry* entry = node->find(path.substr(0, dot));
    if (entry == nullptr) return "";
    if (dot == path.size()) return entry->value.where;
    node = &entry->value;
    path.remove_prefix(dot + 1);
  }
}

// Throws if no job keeps an override, since it would do nothing. One override may replace another.
void require_overrides_kept(const ConfigDocument& comparison,
                            const std::vector<ComparisonJob>& jobs) {
  for (const ConfigEntry& given : comparison.overrides()) {
    if (is_own_key(given.key)) continue;
    std::vector<ConfigEntry> leaves;
    collect_leaves(given, leaves);
    for (const ConfigEntry& leaf : leaves) {
      const auto loses_it = [&](const ComparisonJob& job) {
        const std::string place = place_of(job.document.root(), leaf.key);
        return !place.empty() && !comparison.is_override(place);
      };
      if (!std::all_of(jobs.begin(), jobs.end(), loses_it)) continue;
      throw printable_error("{}: {}: has no effect, for every run takes the value at {}",
                            given.where, leaf.key,
                            place_of(jobs.front().document.root(), leaf.key));
    }
  }
}

}  // namespace

void ComparisonKeys::Variation::describe(Schema& schema) {
  schema
      .field("name", name,
             "of the run and its folder; beside it stand the keys that it changes, nested or as "
             "dotted paths")
      .required();
}

void ComparisonKeys::describe(Schema& schema) {
  schema.field("base", base,
               "of a comparison: the configuration, beside this file, that it changes; empty: this "
               "file is the whole of it");
  schema.list("variations", variations,
              "of a comparison: what is trained, each a name and changes to the configuration");
  schema.section(
      "grid",
      "of a comparison: keys, nested or as dotted paths, each with a list of values; every "
      "combination of them is trained, of every variation");
}

std::vector<ComparisonJob> expand_comparison(const ConfigDocument& comparison) {
  const ConfigEntry* first = find_comparison_key(comparison);
  if (first == nullptr || first->key == "base") {
    throw printable_error(
        "{}: variations: missing; a comparison has variations, a grid, or both{}",
        comparison.root().where,
        first != nullptr
            ? ""
            : fmt::format("; one run is trained by 'mobius train {}'", comparison.name()));
  }
  const std::vector<GridAxis> axes = read_grid(comparison);
  require_few(comparison, axes);
  std::vector<ComparisonJob> jobs = read_variations(comparison);
  for (const GridAxis& axis : axes) {
    jobs = multiply(jobs, axis);
    require_names(jobs, axis);
  }
  require_overrides_kept(comparison, jobs);
  return jobs;
}

// The name of a variation never holds an '='.
std::string variant_in(const std::string& job_name) {
  std::string name = job_name;
  for (const std::string part : {"seed=", "lr="}) {
    const std::size_t at = name.rfind(part);
    if (at == 0) return "";
    if (at == std::string::npos || name[at - 1] != '-') continue;
    if (name.find('=', at + part.size()) == std::string::npos) name.resize(at - 1);
  }
  return name;
}

}  // namespace mobius
