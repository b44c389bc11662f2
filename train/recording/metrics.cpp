#include "train/recording/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "data/input_file.h"

namespace mobius {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

NLOHMANN_JSON_SERIALIZE_ENUM(RunStatus, {{RunStatus::finished, "finished"},
                                         {RunStatus::early_stop, "early_stop"},
                                         {RunStatus::interrupted, "interrupted"},
                                         {RunStatus::diverged, "diverged"}})

namespace {

// Whether each of the keys that the object has holds a whole number from 0 to 2^53.
bool holds_counts(const OrderedJson& object, std::initializer_list<const char*> keys) {
  constexpr auto most = std::uint64_t{1} << 53;
  return std::all_of(keys.begin(), keys.end(), [&object](const char* key) {
    const auto found = object.find(key);
    return found == object.end() ||
           (found->is_number_unsigned() && found->get<std::uint64_t>() <= most);
  });
}

std::optional<double> number_in(const OrderedJson& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// The lists of numbers in an array with one object for each layer.
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
void put(OrderedJson& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}

template <typename T>
void get(const OrderedJson& object, const char* key, std::optional<T>& value) {
  if (object.contains(key) && !object.at(key).is_null()) value = object.at(key).get<T>();
}

void put(OrderedJson& object, const std::optional<LanguageScore>& score) {
  if (!score) return;
  object["perplexity"] = score->perplexity;
  put(object, "bits_per_byte", score->bits_per_byte);
}

OrderedJson scores_json(const std::vector<std::pair<std::string, Score>>& groups) {
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

// The lines of a run's earlier part that stay: whole ones, up to `step` or `tested_step`.
std::string kept_lines(const std::string& text, std::int64_t step, std::int64_t tested_step) {
  std::string kept;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const std::optional<MetricsPoint> point = parse_metrics_line(line);
    if (!point) continue;
    if (point->step <= (point->split == "test" ? tested_step : step)) kept += line + "\n";
  }
  return kept;
}

OrderedJson score_json(const Score& score) {
  return {{"loss", score.loss()},         {"accuracy", score.accuracy()},
          {"loss_sum", score.loss_sum},   {"n_labels", score.n_labels},
          {"n_correct", score.n_correct}, {"n_scored", score.n_scored}};
}

Score score_from(const OrderedJson& object) {
  Score score;
  const OrderedJson& loss_sum = object.at("loss_sum");  // null: not finite
  score.loss_sum =
      loss_sum.is_null() ? std::numeric_limits<double>::quiet_NaN() : loss_sum.get<double>();
  object.at("n_labels").get_to(score.n_labels);
  object.at("n_correct").get_to(score.n_correct);
  object.at("n_scored").get_to(score.n_scored);
  return score;
}

std::optional<LanguageScore> language_from(const OrderedJson& object) {
  if (!object.contains("perplexity")) return std::nullopt;
  LanguageScore score;
  // null: not finite.
  score.perplexity = object["perplexity"].is_null() ? std::numeric_limits<double>::infinity()
                                                    : object["perplexity"].get<double>();
  if (const auto bits = object.find("bits_per_byte"); bits != object.end() && bits->is_number())
    score.bits_per_byte = bits->get<double>();
  return score;
}

}  // namespace

std::vector<std::pair<std::string, double>> scalars_of(const MetricsLine& line) {
  std::vector<std::pair<std::string, double>> scalars;
  const auto add = [&](const std::string& name, std::optional<double> value) {
    if (value) scalars.emplace_back(line.split + "/" + name, *value);
  };
  add("loss", line.loss);
  add("accuracy", line.accuracy);
  if (line.language) {
    add("perplexity", line.language->perplexity);
    add("bits_per_byte", line.language->bits_per_byte);
  }
  add("lr", line.lr);
  add("grad_norm", line.grad_norm);
  add("tokens_per_s", line.tokens_per_s);
  for (const auto& [name, value] : line.summaries) add(name, value);
  if (line.groups.size() > 1) {
    for (const auto& [name, score] : line.groups) {
      add(name + "/loss", score.loss());
      add(name + "/accuracy", score.accuracy());
    }
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

std::optional<MetricsPoint> parse_metrics_line(const std::string& line) {
  const OrderedJson object = OrderedJson::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !holds_counts(object, {"step"}) || !object.contains("step") ||
      !object.contains("split") || !object["split"].is_string()) {
    return std::nullopt;
  }
  return MetricsPoint{object["step"].get<std::int64_t>(), object["split"].get<std::string>(),
                      number_in(object, "loss"), number_in(object, "accuracy"),
                      means_of(object.value("attention", OrderedJson::array()))};
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
  put(object, "best_step", summary.best_step);
  put(object, "best_value", summary.best_value);
  put(object, "steps_to_99", summary.steps_to_99);
  put(object, "loss_floor", summary.loss_floor);
  object["parameters"] = summary.parameters;
  object["train_seconds"] = summary.train_seconds;
  object["step_ms"] = summary.step_ms;
  object["tokens_per_s"] = summary.tokens_per_s;
  object["peak_bytes"] = summary.peak_bytes;
  object["threads"] = summary.threads;
  object["ranks"] = summary.ranks;
  write_whole_file(path, object.dump(2) + "\n");
}

namespace {

bool is_score(const OrderedJson& object) {
  return object.is_object() && holds_counts(object, {"n_labels", "n_correct", "n_scored"});
}

bool are_scores(const OrderedJson& object) {
  return object.is_object() && std::all_of(object.begin(), object.end(), is_score);
}

// Whether the object tells how a run ended, in words that there are, and its counts can be.
bool is_summary(const OrderedJson& object) {
  return object.is_object() && object.contains("status") &&
         OrderedJson(object["status"].get<RunStatus>()) == object["status"] &&
         (!object.contains("test") || is_score(object["test"])) &&
         (!object.contains("groups") || are_scores(object["groups"])) &&
         holds_counts(object, {"step", "best_step", "steps_to_99", "parameters", "peak_bytes"}) &&
         holds_counts(object, {"threads", "ranks"});
}

}  // namespace

std::optional<RunSummary> read_summary(const fs::path& path) {
  if (!fs::exists(path)) return std::nullopt;
  try {
    const OrderedJson object = OrderedJson::parse(content_of(path));
    if (!is_summary(object)) return std::nullopt;
    RunSummary summary;
    object.at("status").get_to(summary.status);
    object.at("step").get_to(summary.step);
    if (object.contains("test")) {
      summary.test = score_from(object["test"]);
      summary.language = language_from(object["test"]);
      // Earlier versions called such a run finished.
      if (!summary.test->is_finite()) summary.status = RunStatus::diverged;
    }
    if (object.contains("groups")) {
      for (const auto& [name, score] : object["groups"].items()) {
        summary.groups.emplace_back(name, score_from(score));
      }
    }
    get(object, "best_step", summary.best_step);
    get(object, "best_value", summary.best_value);
    get(object, "steps_to_99", summary.steps_to_99);
    get(object, "loss_floor", summary.loss_floor);
    object.at("parameters").get_to(summary.parameters);
    object.at("train_seconds").get_to(summary.train_seconds);
    object.at("step_ms").get_to(summary.step_ms);
    object.at("tokens_per_s").get_to(summary.tokens_per_s);
    object.at("peak_bytes").get_to(summary.peak_bytes);
    object.at("threads").get_to(summary.threads);
    summary.ranks = object.value("ranks", 1);
    return summary;
  } catch (const OrderedJson::exception&) {
    return std::nullopt;
  }
}

std::string evaluation_json(std::int64_t step, const Score& total,
                            const std::vector<std::pair<std::string, Score>>& groups,
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
