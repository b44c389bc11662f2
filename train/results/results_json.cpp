#include "train/results/results_json.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <variant>

namespace mobius {

namespace {

using Object = nlohmann::ordered_json;

Object number(double value) { return std::isfinite(value) ? Object(value) : Object(nullptr); }

Object list(const std::vector<double>& values) {
  Object result = Object::array();
  for (const double value : values) result.push_back(number(value));
  return result;
}

Object value_of(const OptionValue& option) {
  return std::visit(
      [](const auto& value) {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::monostate>) {
          return Object(nullptr);
        } else if constexpr (std::is_same_v<Value, double>) {
          return number(value);
        } else if constexpr (std::is_same_v<Value, std::vector<double>>) {
          return list(value);
        } else {
          return Object(value);
        }
      },
      option);
}

Object claims_of(const StudyResult& result) {
  Object claims = Object::array();
  for (const Claim& claim : result.claims) {
    claims.push_back(
        {{"statement", claim.statement}, {"measured", claim.measured}, {"holds", claim.holds}});
  }
  return claims;
}

Object tables_of(const StudyResult& result) {
  Object tables = Object::array();
  for (const StudyTable& table : result.tables) {
    Object rows = Object::array();
    for (const std::vector<Cell>& row : table.rows) {
      Object cells = Object::array();
      for (const Cell& cell : row) {
        const auto* value = std::get_if<double>(&cell);
        cells.push_back(value != nullptr ? number(*value) : Object(std::get<std::string>(cell)));
      }
      rows.push_back(std::move(cells));
    }
    tables.push_back({{"title", table.title}, {"columns", table.columns}, {"rows", rows}});
  }
  return tables;
}

Object axis_of(const std::string& label, Axis axis) {
  return {{"label", label}, {"axis", axis == Axis::linear ? "linear" : "logarithmic"}};
}

Object figures_of(const StudyResult& result) {
  Object figures = Object::array();
  for (const Figure& figure : result.figures) {
    Object series = Object::array();
    for (const Series& one : figure.series)
      series.push_back({{"name", one.name}, {"x", list(one.x)}, {"y", list(one.y)}});
    figures.push_back({{"name", figure.name},
                       {"title", figure.title},
                       {"x", axis_of(figure.x_label, figure.x_axis)},
                       {"y", axis_of(figure.y_label, figure.y_axis)},
                       {"mark", figure.mark == Mark::lines ? "lines" : "points"},
                       {"series", series}});
  }
  return figures;
}

Object object_of(const StudyReport& report) {
  Object options = Object::object();
  for (const auto& [key, value] : report.options) options[key] = value_of(value);
  return {{"made_by", "mobius experiment"},
          {"version", MOBIUS_VERSION},
          {"experiment", report.name},
          {"question", report.question},
          {"command", report.command},
          {"options", options},
          {"seed", report.seed},
          {"processor", processor_name()},
          {"findings", report.result.findings},
          {"claims", claims_of(report.result)},
          {"tables", tables_of(report.result)},
          {"figures", figures_of(report.result)}};
}

std::string dumped(const Object& value) {
  return value.dump(-1, ' ', false, Object::error_handler_t::replace);
}

// Indents objects, and lists of objects, lists or sentences; a list of numbers or words takes one
// line.
void add_indented(const Object& value, const std::string& indentation, std::string& text) {
  constexpr std::size_t longest_word = 40;
  const auto is_short = [](const Object& element) {
    return !element.is_structured() &&
           !(element.is_string() && element.get_ref<const std::string&>().size() > longest_word);
  };
  const bool is_flat = value.empty() || !value.is_structured() ||
                       (value.is_array() && std::all_of(value.begin(), value.end(), is_short));
  if (is_flat) {
    text += dumped(value);
    return;
  }
  const std::string inner = indentation + "  ";
  text += value.is_array() ? '[' : '{';
  bool is_first = true;
  for (const auto& [key, element] : value.items()) {
    text += (is_first ? "\n" : ",\n") + inner;
    is_first = false;
    if (value.is_object()) text += dumped(key) + ": ";
    add_indented(element, inner, text);
  }
  text += "\n" + indentation + (value.is_array() ? ']' : '}');
}

std::string indented(const Object& value) {
  std::string text;
  add_indented(value, "", text);
  return text + "\n";
}

}  // namespace

std::string to_json(const StudyReport& report) { return indented(object_of(report)); }

std::string to_json(const std::vector<StudyReport>& reports) {
  Object list = Object::array();
  for (const StudyReport& report : reports) list.push_back(object_of(report));
  return dumped(list);
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace mobius
