#include "train/comparison_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

#include "core/path.h"
#include "train/printable.h"

namespace mobius {

namespace {

using Kind = ConfigNode::Kind;

// One key of the grid.
struct Axis {
  std::string key;  // a dotted path
  std::string where;
  ConfigNode values;        // a list
  std::string name_of_key;  // in the names of jobs; empty where the value says enough
};

bool is_of_a_name(unsigned char c) {
  return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
}

void require_folder_name(const ConfigNode& node, const std::string& path) {
  const bool is_valid = node.kind == Kind::scalar && !node.text.empty() &&
                        node.text.front() != '.' &&
                        std::all_of(node.text.begin(), node.text.end(), is_of_a_name);
  if (!is_valid) {
    throw printable_error("{}: {}: expected a name of letters, digits, '.', '_' and '-', got '{}'",
                          node.where, path, node.text);
  }
}

// The configuration that the jobs start from.
ConfigDocument base_of(const ConfigDocument& comparison) {
  ConfigDocument own = comparison;
  for (const char* key : {"variations", "grid", "base"}) own.remove(key);
  const ConfigEntry* base = comparison.root().find("base");
  if (base == nullptr) return own;
  if (base->value.kind != Kind::scalar) {
    throw printable_error("{}: base: expected a file name, got {}", base->value.where,
                          describe(base->value));
  }
  ConfigDocument document =
      ConfigDocument::from_file(comparison.folder() / expand_home(base->value.text));
  document.merge(own.root());
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

// The jobs before the grid is applied: the variations, or the base alone.
std::vector<ComparisonJob> read_variations(const ConfigDocument& comparison) {
  const ConfigDocument base = base_of(comparison);
  const ConfigEntry* list = comparison.root().find("variations");
  if (list == nullptr) return {{"", base}};
  if (list->value.kind != Kind::list || list->value.entries.empty()) {
    throw printable_error("{}: variations: expected a list of named variations", list->value.where);
  }
  std::vector<ComparisonJob> jobs;
  for (const ConfigEntry& element : list->value.entries) {
    ComparisonJob job = expand(base, element);
    for (const ComparisonJob& other : jobs) {
      if (other.name != job.name) continue;
      throw printable_error("{}: variations.{}.name: '{}' is given twice",
                            element.value.find("name")->value.where, element.key, job.name);
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
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
}

// The grid's keys with their lists; maps are walked into.
void read_axes(const ConfigNode& node, const std::string& path, std::vector<Axis>& axes) {
  for (const ConfigEntry& entry : node.entries) {
    const std::string key = join_path(path, entry.key);
    if (entry.value.kind == Kind::map && !entry.value.entries.empty()) {
      read_axes(entry.value, key, axes);
      continue;
    }
    require_grid_values(entry, key);
    for (const Axis& other : axes) {
      if (other.key != key) continue;
      throw printable_error("{}: grid.{}: given twice, first at {}", entry.where, key, other.where);
    }
    axes.push_back({key, entry.where, entry.value, ""});
  }
}

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// A key goes into names by its last part where no other key of the grid ends alike; one whose
// values are names of kinds not at all.
void name_keys(std::vector<Axis>& axes) {
  std::map<std::string, int> count;
  for (const Axis& axis : axes) ++count[last_part(axis.key)];
  for (Axis& axis : axes) {
    const std::string part = last_part(axis.key);
    const bool is_kind = part == "kind" || part == "name";
    if (!is_kind) axis.name_of_key = count[part] == 1 ? part : axis.key;
  }
}

std::vector<Axis> read_grid(const ConfigDocument& comparison) {
  const ConfigEntry* grid = comparison.root().find("grid");
  if (grid == nullptr) return {};
  if (grid->value.kind != Kind::map || grid->value.entries.empty()) {
    throw printable_error("{}: grid: expected keys with lists of values, got {}", grid->value.where,
                          describe(grid->value));
  }
  std::vector<Axis> axes;
  read_axes(grid->value, "", axes);
  name_keys(axes);
  const auto rank = [](const Axis& axis) {
    return axis.key == seed_key ? 2 : axis.key == learning_rate_key ? 1 : 0;
  };
  std::stable_sort(axes.begin(), axes.end(),
                   [&](const Axis& a, const Axis& b) { return rank(a) < rank(b); });
  return axes;
}

std::string text_of(const ConfigNode& value) {
  if (value.kind == Kind::null) return "null";
  if (value.kind == Kind::scalar) return value.text;
  std::string text;
  for (const ConfigEntry& element : value.entries) {
    text += (text.empty() ? "" : "_") + text_of(element.value);
  }
  return text;
}

// The name of a job with one more value.
std::string extended_name(const std::string& name, const Axis& axis, const ConfigNode& value) {
  std::string text = text_of(value);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return !is_of_a_name(c) && c != '+'; }, '_');
  const std::string part = axis.name_of_key.empty() ? text : axis.name_of_key + "=" + text;
  return name.empty() ? part : name + "-" + part;
}

// The key at its dotted path, as a map to be merged.
ConfigNode override_of(const Axis& axis, const ConfigEntry& value) {
  ConfigEntry entry{axis.key, axis.where, value.value};
  return {.kind = Kind::map, .where = axis.where, .entries = {std::move(entry)}};
}

std::vector<ComparisonJob> multiply(const std::vector<ComparisonJob>& jobs, const Axis& axis) {
  std::vector<ComparisonJob> product;
  for (const ComparisonJob& job : jobs) {
    for (const ConfigEntry& value : axis.values.entries) {
      ComparisonJob& next =
          product.emplace_back(extended_name(job.name, axis, value.value), job.document);
      next.document.merge(override_of(axis, value));
    }
  }
  return product;
}

void require_distinct_names(const std::vector<ComparisonJob>& jobs, const Axis& axis) {
  std::vector<std::string> names;
  for (const ComparisonJob& job : jobs) names.push_back(job.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return;
  throw printable_error("{}: grid.{}: makes two runs named '{}'", axis.where, axis.key, *twice);
}

}  // namespace

std::vector<ComparisonJob> expand_comparison(const ConfigDocument& comparison) {
  if (comparison.root().find("variations") == nullptr &&
      comparison.root().find("grid") == nullptr) {
    throw printable_error("{}: variations: missing; a comparison has variations, a grid, or both",
                          comparison.root().where);
  }
  const std::vector<Axis> axes = read_grid(comparison);
  std::vector<ComparisonJob> jobs = read_variations(comparison);
  for (const Axis& axis : axes) {
    jobs = multiply(jobs, axis);
    require_distinct_names(jobs, axis);
  }
  return jobs;
}

// No variation's name holds an '='.
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
