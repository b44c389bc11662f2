#include "train/recording/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <type_traits>

#include "core/error.h"
#include "data/input_file.h"

namespace mobius {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

NLOHMANN_JSON_SERIALIZE_ENUM(RunStatus, {{RunStatus::finished, "finished"},
                                         {RunStatus::early_stop, "early_stop"},
                                         {RunStatus::interrupted, "interrupted"},
                                         {RunStatus::diverged, "diverged"}})

namespace {

// A whole number from 0 to 2^53. Throws Error otherwise.
std::int64_t count_in(const OrderedJson& value) {
  constexpr auto most = std::uint64_t{1} << 53;
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
    throw Error("expected a count, got {}", value.dump());
  return value.get<std::int64_t>();
}

std::optional<double> number_in(const OrderedJson& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// The means of the lists of numbers in an array that holds one object for each layer.
NamedNumbers means_of(const OrderedJson& layers) {
  DiagnosticsSink sink;
  for (const OrderedJson& layer : layers) {
    sink.begin_layer();
    for (const auto& [name, heads] : layer.items()) {
      const bool is_list =
          heads.is_array() && std::all_of(heads.begin(), heads.end(),
                                          [](const OrderedJson& x) { return x.is_number(); });
      if (is_list) sink.tell({name, heads.get<std::vector<double>>(), /*summary=*/name});
    }
  }
  return sink.summaries();
}

template <typename T>
void put(OrderedJson& object, const char* key, const T& value) {
  object[key] = value;
}
template <typename T>
void put(OrderedJson& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}

// Counts and numbers, as put() writes them.
template <typename T>
void get(const OrderedJson& object, const char* key, T& value) {
  if constexpr (std::is_integral_v<T>)
    value = static_cast<T>(count_in(object.at(key)));
  else
    object.at(key).get_to(value);
}
template <typename T>
void get(const OrderedJson& object, const char* key, std::optional<T>& value) {
  if (!object.contains(key)) return;
  const bool was_not_finite = !std::is_integral_v<T> && object.at(key).is_null();
  if (!was_not_finite) get(object, key, value.emplace());
}

void put(OrderedJson& object, const std::optional<LanguageScore>& score) {
  if (!score) return;
  object["perplexity"] = score->perplexity;
  put(object, "bits_per_byte", score->bits_per_byte);
}

OrderedJson scores_json(const NamedScores& groups) {
  OrderedJson result = OrderedJson::object();
  for (const auto& [name, score] : groups) {
    result[name] = {{"loss", score.loss()}, {"accuracy", score.accuracy()}};
  }
  return result;
}

void put(OrderedJson& object, const NamedNumbers& numbers) {
  for (const auto& [name, value] : numbers) object.emplace(name, value);
}

// One object a layer, with a number a head.
OrderedJson diagnostics_json(const std::vector<LayerDiagnostics>& layers) {
  OrderedJson result = OrderedJson::array();
  for (const LayerDiagnostics& layer : layers) {
    OrderedJson object = OrderedJson::object();
    for (const Diagnostic& value : layer.values) object[value.name] = value.heads;
    result.push_back(std::move(object));
  }
  return result;
}

OrderedJson to_json(const MetricsLine& line) {
  OrderedJson object = {
      {"step", line.step}, {"split", line.split}, {"loss", line.loss}, {"accuracy", line.accuracy}};
  put(object, line.language);
  put(object, "lr", line.lr);
  put(object, "grad_norm", line.grad_norm);
  put(object, "tokens_per_s", line.tokens_per_s);
  put(object, line.summaries);
  if (line.groups.size() > 1) object["groups"] = scores_json(line.groups);
  if (!line.attention.empty()) object["attention"] = diagnostics_json(line.attention);
  return object;
}

// The whole lines of a run's earlier part up to `step` or, for tests, up to `tested_step`.
std::string kept_lines(const std::string& text, std::int64_t step, std::int64_t tested_step) {
  std::string kept;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    const std::optional<MetricsPoint> point = parse_metrics_line(line);
    if (point && point->step <= (point->split == "test" ? tested_step : step)) kept += line + "\n";
  }
  return kept;
}

OrderedJson score_json(const Score& score) {
  return {{"loss", score.loss()},         {"accuracy", score.accuracy()},
          {"loss_sum", score.loss_sum},   {"n_labels", score.n_labels},
          {"n_correct", score.n_correct}, {"n_scored", score.n_scored}};
}

// A number that was not finite is null.
double number_or(const OrderedJson& value, double not_finite) {
  return value.is_null() ? not_finite : value.get<double>();
}

Score score_from(const OrderedJson& object) {
  return {number_or(object.at("loss_sum"), std::numeric_limits<double>::quiet_NaN()),
          count_in(object.at("n_labels")), count_in(object.at("n_correct")),
          count_in(object.at("n_scored"))};
}

std::optional<LanguageScore> language_from(const OrderedJson& object) {
  if (!object.contains("perplexity")) return std::nullopt;
  return LanguageScore{number_or(object["perplexity"], std::numeric_limits<double>::infinity()),
                       number_in(object, "bits_per_byte")};
}

// Calls visit(key, field) for the fields of a RunSummary that hold one number, in the order of the
// file.
template <typename Summary, typename Visit>
void for_each_number(Summary& summary, Visit visit) {
  visit("best_step", summary.best_step);
  visit("best_value", summary.best_value);
  visit("steps_to_99", summary.steps_to_99);
  visit("loss_floor", summary.loss_floor);
  visit("parameters", summary.parameters);
  visit("train_seconds", summary.train_seconds);
  visit("step_ms", summary.step_ms);
  visit("tokens_per_s", summary.tokens_per_s);
  visit("peak_bytes", summary.peak_bytes);
  visit("threads", summary.threads);
  visit("ranks", summary.ranks);
}

RunSummary summary_from(OrderedJson object) {
  RunSummary summary;
  object.at("status").get_to(summary.status);
  if (OrderedJson(summary.status) != object["status"]) throw Error("expected a status");
  get(object, "step", summary.step);
  if (object.contains("test")) {
    summary.test = score_from(object["test"]);
    summary.language = language_from(object["test"]);
    // Earlier versions called such a run finished.
    if (!summary.test->is_finite()) summary.status = RunStatus::diverged;
  }
  if (object.contains("groups")) {
    for (const auto& [name, score] : object["groups"].get_ref<OrderedJson::object_t&>())
      summary.groups.emplace_back(name, score_from(score));
  }
  object.emplace("ranks", 1);  // files of earlier versions have none
  for_each_number(summary, [&](const char* key, auto& value) { get(object, key, value); });
  return summary;
}

}  // namespace

NamedNumbers scalars_of(const MetricsLine& line) {
  NamedNumbers scalars;
  const auto add = [&](const std::string& name, const OrderedJson& value) {
    scalars.emplace_back(line.split + "/" + name, value.get<double>());
  };
  const OrderedJson object = to_json(line);
  for (const auto& [name, value] : object.items()) {
    if (value.is_number_float()) add(name, value);
  }
  const OrderedJson groups = object.value("groups", OrderedJson::object());
  for (const auto& [group, score] : groups.items()) {
    for (const auto& [name, value] : score.items()) add(group + "/" + name, value);
  }
  for (std::size_t layer = 0; layer < line.attention.size(); ++layer) {
    for (const auto& [name, heads, summary] : line.attention[layer].values) {
      for (std::size_t head = 0; head < heads.size(); ++head)
        add(fmt::format("layer_{}/{}/head_{}", layer + 1, name, head + 1), heads[head]);
    }
  }
  return scalars;
}

MetricsLog::MetricsLog(const fs::path& path, std::int64_t step, std::int64_t tested_step) {
  const std::string before = step > 0 && fs::exists(path) ? content_of(path) : "";
  write_whole_file(path, kept_lines(before, step, tested_step));
  file_ = std::make_unique<AppendedFile>(path);
}

std::optional<MetricsPoint> parse_metrics_line(const std::string& line) try {
  const OrderedJson object = OrderedJson::parse(line);
  return MetricsPoint{count_in(object.at("step")), object.at("split").get<std::string>(),
                      number_in(object, "loss"), number_in(object, "accuracy"),
                      means_of(object.value("attention", OrderedJson::array()))};
} catch (const std::exception&) {
  return std::nullopt;
}

std::vector<MetricsPoint> read_metrics(const fs::path& path, std::uintmax_t bytes) {
  std::vector<MetricsPoint> points;
  if (!fs::exists(path)) return points;
  const InputFile file(path);
  std::string text(std::min<std::uintmax_t>(file.size(), bytes), '\0');
  file.read(file.size() - text.size(), std::as_writable_bytes(std::span(text)));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    if (auto point = parse_metrics_line(line)) points.push_back(*std::move(point));
  }
  return points;
}

void MetricsLog::write(const MetricsLine& line) { file_->write(to_json(line).dump() + "\n"); }

void write_summary(const fs::path& path, const RunSummary& summary) {
  OrderedJson object = {{"status", summary.status}, {"step", summary.step}};
  if (summary.test) object["test"] = score_json(*summary.test);
  if (summary.language) put(object["test"], summary.language);
  if (summary.groups.size() > 1) {
    for (const auto& [name, score] : summary.groups) object["groups"][name] = score_json(score);
  }
  for_each_number(summary, [&](const char* key, const auto& value) { put(object, key, value); });
  write_whole_file(path, object.dump(2) + "\n");
}

std::optional<RunSummary> read_summary(const fs::path& path) {
  if (!fs::exists(path)) return std::nullopt;
  const std::string text = content_of(path);
  try {
    return summary_from(OrderedJson::parse(text));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string evaluation_json(std::int64_t step, const Score& total, const NamedScores& groups,
                            const NamedNumbers& summaries,
                            const std::optional<LanguageScore>& language) {
  OrderedJson object = {{"step", step},
                        {"split", "test"},
                        {"loss", total.loss()},
                        {"accuracy", total.accuracy()},
                        {"n_labels", total.n_labels},
                        {"n_scored", total.n_scored}};
  put(object, language);
  put(object, summaries);
  if (groups.size() > 1) object["groups"] = scores_json(groups);
  return object.dump();
}

}  // namespace mobius
