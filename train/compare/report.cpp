#include "train/compare/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "data/input_file.h"
#include "train/compare/comparison_output.h"
#include "train/page/embedded.h"
#include "train/page/page.h"
#include "train/recording/metrics.h"
#include "train/run/run_folder.h"

namespace mobius {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

Json number(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

// Keeps as many points as a plot can show apart.
Json thinned(const std::vector<Json>& points) {
  constexpr std::size_t enough = 500;
  const std::size_t stride = (points.size() + enough - 1) / enough;
  Json kept = Json::array();
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i % stride == 0 || i + 1 == points.size()) kept.push_back(points[i]);
  }
  return kept;
}

Json curves_of(const ComparedRun& run) {
  std::vector<Json> train, test;
  for (const MetricsPoint& point : read_metrics(RunFolder(run.folder).metrics())) {
    Json object = {
        {"step", point.step}, {"loss", number(point.loss)}, {"accuracy", number(point.accuracy)}};
    for (const auto& [name, value] : point.attention) object["attention"][name] = value;
    (point.split == "test" ? test : train).push_back(std::move(object));
  }
  return {{"train", thinned(train)}, {"test", thinned(test)}};
}

bool is_list(const Json& value, std::size_t size) {
  return value.is_array() && value.size() == size;
}

bool is_matrix(const Json& value, std::size_t size) {
  return is_list(value, size) && std::ranges::all_of(value, [size](const Json& row) {
           return is_list(row, size) && std::ranges::all_of(row, &Json::is_number);
         });
}

// Whether attention_maps_json() may have written it.
bool are_maps(const Json& maps) {
  if (!maps.is_object() || !maps.contains("positions") || !maps.contains("tokens") ||
      !maps.contains("layers") || !maps["positions"].is_number_unsigned()) {
    return false;
  }
  const auto n = maps["positions"].get<std::size_t>();
  const Json &tokens = maps["tokens"], &layers = maps["layers"];
  const auto is_head = [n](const Json& head) { return head.is_null() || is_matrix(head, n); };
  const auto is_layer = [&is_head](const Json& layer) {
    return layer.is_array() && std::ranges::all_of(layer, is_head);
  };
  return is_list(tokens, n) && std::ranges::all_of(tokens, &Json::is_number_integer) &&
         layers.is_array() && std::ranges::all_of(layers, is_layer);
}

// Returns the content of attention_maps.json of a run, or null if it is absent or something else.
Json maps_of(const ComparedRun& run) {
  const fs::path path = RunFolder(run.folder).attention_maps();
  if (!fs::exists(path)) return nullptr;
  const Json maps = Json::parse(content_of(path), nullptr, /*allow_exceptions=*/false);
  if (!are_maps(maps)) return nullptr;
  return {{"positions", maps["positions"]}, {"tokens", maps["tokens"]}, {"layers", maps["layers"]}};
}

Json data_of(const Comparison& comparison) {
  Json data = Json::parse(to_json(comparison));
  for (std::size_t i = 0; i < comparison.runs().size(); ++i) {
    const ComparedRun& run = comparison.runs()[i];
    Json& object = data["runs"][i];
    object["is_complete"] = run.is_complete();
    object["values"] = run.config;
    object["config"] = run.config_text;
    object["curves"] = curves_of(run);
    object["attention_maps"] = maps_of(run);
  }
  return data;
}

}  // namespace

std::string to_html(const Comparison& comparison) {
  const Json data = data_of(comparison);
  return to_page({.title = "Mobius: comparison",
                  .maker = "mobius compare",
                  .content = embedded::report_html,
                  .script = embedded::report_js},
                 data.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace mobius
