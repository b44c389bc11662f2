#include "train/compare/comparison_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "train/compare/comparison_file.h"
#include "train/io/printable.h"

namespace mobius {

using OrderedJson = nlohmann::ordered_json;

namespace {

using Row = std::vector<std::string>;

// The numbers that every table has, by name. A summary may lack one.
struct Number {
  const char* name;
  std::optional<double> (*of)(const RunSummary&);
  int digits;  // after the point, for readers
};
using Maybe = std::optional<double>;
constexpr std::array<Number, 7> numbers = {{
    {"accuracy",
     [](const RunSummary& summary) {
       const std::optional<Score>& test = summary.test;
       const bool has_one = test && test->n_scored > 0 && test->is_finite();
       return has_one ? Maybe(test->accuracy()) : Maybe();
     },
     4},
    {"loss", [](const RunSummary& s) { return s.test ? Maybe(s.test->loss()) : Maybe(); }, 4},
    {"perplexity",
     [](const RunSummary& s) { return s.language ? Maybe(s.language->perplexity) : Maybe(); }, 3},
    {"bits_per_byte",
     [](const RunSummary& s) { return s.language ? Maybe(s.language->bits_per_byte) : Maybe(); },
     4},
    {"steps_to_99", [](const RunSummary& s) { return Maybe(s.steps_to_99); }, 0},
    {"step_ms", [](const RunSummary& s) { return Maybe(s.step_ms); }, 2},
    {"parameters", [](const RunSummary& s) { return Maybe(s.parameters); }, 0},
}};

// Returns the names of all groups of test sequences that any run is scored on.
std::set<std::string> groups_of(const Comparison& comparison) {
  std::set<std::string> names;
  for (const ComparedRun& run : comparison.runs()) {
    if (!run.summary) continue;
    for (const auto& [name, score] : run.summary->groups) names.insert(name);
  }
  return names;
}

std::optional<Score> score_of(const RunSummary& summary, const std::string& group) {
  const auto found =
      std::ranges::find(summary.groups, group, [](const auto& g) { return g.first; });
  return found == summary.groups.end() ? std::nullopt : std::optional(found->second);
}

std::string status_of(const ComparedRun& run) {
  if (!run.summary) return "unfinished";
  constexpr std::array names = {"finished", "early_stop", "interrupted", "diverged"};
  return names[static_cast<std::size_t>(run.summary->status)];  // in the order of RunStatus
}

// The text table ----------------------------------------------------------------------------------

std::string with_deviation(const Statistic& statistic, int digits) {
  if (statistic.count == 0) return "";
  const std::string mean = fmt::format("{:.{}f}", printable(statistic.mean), digits);
  if (!statistic.deviation || *statistic.deviation == 0) return mean;
  return fmt::format("{} +- {:.{}f}", mean, printable(*statistic.deviation), digits);
}

// Says how many of the shown runs are complete, and which learning rates diverged.
std::string state_in_words(const ComparedVariant& variant) {
  const std::size_t complete = variant.shown().complete_runs(), all = variant.shown().runs.size();
  std::vector<std::string> words;
  if (all > 1 || complete < 1) words.push_back(fmt::format("{}/{} runs", complete, all));
  for (const ComparedSetting& setting : variant.settings) {
    if (setting.diverged_runs() == 0) continue;
    const bool is_shown = &setting == &variant.shown();
    words.push_back(is_shown ? "diverged" : fmt::format("lr {} diverged", setting.learning_rate));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::vector<Row> table_of(const Comparison& comparison) {
  const bool shows_rates = std::ranges::any_of(
      comparison.variants(), [](const ComparedVariant& v) { return v.settings.size() > 1; });
  Row titles = {"name", "best_lr"};
  for (const Number& number : numbers) titles.push_back(number.name);
  titles.push_back("state");
  std::vector<Row> table = {titles};
  for (const ComparedVariant& variant : comparison.variants()) {
    const ComparedSetting& setting = variant.shown();
    Row row = {variant.name, shows_rates ? setting.learning_rate : ""};
    for (const Number& number : numbers) {
      row.push_back(with_deviation(statistic_over(setting, number.of), number.digits));
    }
    row.push_back(state_in_words(variant));
    table.push_back(std::move(row));
  }
  return table;
}

void drop_empty_columns(std::vector<Row>& table) {
  for (std::size_t i = table.front().size(); i-- > 1;) {
    const auto is_empty = [i](const Row& row) { return row[i].empty(); };
    if (!std::all_of(table.begin() + 1, table.end(), is_empty)) continue;
    for (Row& row : table) row.erase(row.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// CSV ---------------------------------------------------------------------------------------------

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string csv_number(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
}

void add_statistic(Row& row, const Statistic& statistic) {
  row.push_back(statistic.count == 0 ? "" : csv_number(statistic.mean));
  row.push_back(csv_number(statistic.deviation));
}

// Appends the numbers of a setting. A single run is a setting of one.
void add_numbers(Row& row, const ComparedSetting& setting, const std::set<std::string>& groups) {
  for (const Number& number : numbers) add_statistic(row, statistic_over(setting, number.of));
  for (const std::string& group : groups) {
    const auto accuracy = [&](const RunSummary& summary) {
      const std::optional<Score> score = score_of(summary, group);
      return score && score->n_scored > 0 ? Maybe(score->accuracy()) : Maybe();
    };
    const auto loss = [&](const RunSummary& summary) {
      const std::optional<Score> score = score_of(summary, group);
      return score ? Maybe(score->loss()) : Maybe();
    };
    add_statistic(row, statistic_over(setting, accuracy));
    add_statistic(row, statistic_over(setting, loss));
  }
}

Row csv_titles(const Comparison& comparison, const std::set<std::string>& groups) {
  Row titles = {"level", "name", "variant", "learning_rate", "runs", "complete_runs", "status"};
  const auto add_with_deviation = [&titles](const std::string& title) {
    titles.insert(titles.end(), {title, title + "_deviation"});
  };
  for (const Number& number : numbers) add_with_deviation(number.name);
  for (const std::string& group : groups) {
    add_with_deviation("accuracy(" + group + ")");
    add_with_deviation("loss(" + group + ")");
  }
  for (const std::string& key : comparison.differing_keys()) titles.push_back(key);
  return titles;
}

Row csv_row(const Comparison& comparison, const ComparedSetting& setting, const Row& head,
            const std::string& status, const std::set<std::string>& groups) {
  Row row = head;
  row.insert(row.end(), {setting.learning_rate, std::to_string(setting.runs.size()),
                         std::to_string(setting.complete_runs()), status});
  add_numbers(row, setting, groups);
  for (const std::string& key : comparison.differing_keys()) {
    row.push_back(setting.runs.front()->value_of_key(key));
  }
  return row;
}

// JSON --------------------------------------------------------------------------------------------

OrderedJson json_number(std::optional<double> value) {
  return value && std::isfinite(*value) ? OrderedJson(*value) : OrderedJson(nullptr);
}

void put(OrderedJson& object, const char* key, std::optional<double> value) {
  if (value) object[key] = json_number(value);
}

void put(OrderedJson& object, const char* key, const Statistic& statistic) {
  if (statistic.count == 0) return;
  object[key] = {{"mean", json_number(statistic.mean)}, {"count", statistic.count}};
  put(object[key], "deviation", statistic.deviation);
}

OrderedJson differences_of(const Comparison& comparison, const ComparedRun& run) {
  OrderedJson object = OrderedJson::object();
  for (const std::string& key : comparison.differing_keys()) {
    if (run.config.contains(key)) object[key] = run.value_of_key(key);
  }
  return object;
}

OrderedJson score_json(const Score& score) {
  OrderedJson object = {{"loss", json_number(score.loss())}};
  if (score.n_scored > 0 && score.is_finite()) object["accuracy"] = score.accuracy();
  return object;
}

OrderedJson run_json(const Comparison& comparison, const ComparedRun& run) {
  OrderedJson object = {{"name", run.name},
                        {"variant", run.variant},
                        {"folder", run.folder.string()},
                        {"status", status_of(run)},
                        {"seed", run.value_of_key(seed_key)},
                        {"differences", differences_of(comparison, run)}};
  if (!run.summary) return object;
  const RunSummary& summary = *run.summary;
  object["steps"] = summary.step;
  for (const Number& number : numbers) put(object, number.name, number.of(summary));
  for (const auto& [name, score] : summary.groups) object["groups"][name] = score_json(score);
  put(object, "best_value", summary.best_value);
  put(object, "loss_floor", summary.loss_floor);
  object["tokens_per_s"] = summary.tokens_per_s;
  object["peak_bytes"] = summary.peak_bytes;
  object["threads"] = summary.threads;
  object["ranks"] = summary.ranks;
  return object;
}

OrderedJson setting_json(const ComparedSetting& setting) {
  OrderedJson object = {{"learning_rate", setting.learning_rate}, {"runs", OrderedJson::array()}};
  for (const ComparedRun* run : setting.runs) object["runs"].push_back(run->name);
  object["complete_runs"] = setting.complete_runs();
  object["diverged_runs"] = setting.diverged_runs();
  for (const Number& number : numbers) put(object, number.name, statistic_over(setting, number.of));
  return object;
}

OrderedJson variant_json(const Comparison& comparison, const ComparedVariant& variant) {
  OrderedJson object = {{"name", variant.name},
                        {"differences", differences_of(comparison, *variant.shown().runs.front())},
                        {"best", setting_json(variant.shown())},
                        {"learning_rates", OrderedJson::array()}};
  for (const ComparedSetting& setting : variant.settings) {
    object["learning_rates"].push_back(setting_json(setting));
  }
  return object;
}

}  // namespace

// Names to the left, numbers to the right.
std::string to_text(const Comparison& comparison) {
  std::vector<Row> table = table_of(comparison);
  drop_empty_columns(table);
  for (Row& row : table) {
    for (std::string& cell : row) cell = printable_line(cell);
  }
  std::vector<std::size_t> widths(table.front().size());
  for (const Row& row : table) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max({widths[i], row[i].size(), std::size_t{1}});
    }
  }
  std::string text;
  for (const Row& row : table) {
    text += fmt::format("{:<{}}", row[0], widths[0]);
    for (std::size_t i = 1; i < row.size(); ++i) {
      text += fmt::format("  {:>{}}", row[i].empty() ? "-" : row[i], widths[i]);
    }
    text += "\n";
  }
  return text;
}

std::string to_csv(const Comparison& comparison) {
  const std::set<std::string> groups = groups_of(comparison);
  std::vector<Row> table = {csv_titles(comparison, groups)};
  for (const ComparedVariant& variant : comparison.variants()) {
    table.push_back(csv_row(comparison, variant.shown(), {"variant", variant.name, variant.name},
                            variant.shown().diverged_runs() > 0 ? "diverged" : "", groups));
  }
  for (const ComparedRun& run : comparison.runs()) {
    const ComparedSetting alone{run.value_of_key(learning_rate_key), {&run}};
    table.push_back(
        csv_row(comparison, alone, {"run", run.name, run.variant}, status_of(run), groups));
  }
  std::string text;
  for (const Row& row : table) {
    for (std::size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + csv_field(row[i]);
    text += "\n";
  }
  return text;
}

std::string to_json(const Comparison& comparison) {
  OrderedJson object = {{"metric", comparison.metric() == Metric::accuracy ? "accuracy" : "loss"},
                        {"variants", OrderedJson::array()},
                        {"runs", OrderedJson::array()}};
  for (const ComparedVariant& variant : comparison.variants()) {
    object["variants"].push_back(variant_json(comparison, variant));
  }
  for (const ComparedRun& run : comparison.runs()) {
    object["runs"].push_back(run_json(comparison, run));
  }
  return object.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace mobius
