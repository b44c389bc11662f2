#include "train/attention_maps.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "train/step.h"

namespace mobius {

using Json = nlohmann::json;

namespace {

constexpr std::int64_t most_positions = 96;  // what a page can show

bool contains(const std::vector<std::int64_t>& chosen, std::int64_t number) {
  return chosen.empty() || std::find(chosen.begin(), chosen.end(), number) != chosen.end();
}

// [n, n] of weights[N, N].
Json matrix_json(const Tensor& weights, std::int64_t n) {
  const Tensor shown = weights.slice(0, 0, n).slice(1, 0, n).to(DType::f64).contiguous();
  const double* values = shown.data<double>();
  Json rows = Json::array();
  for (std::int64_t i = 0; i < n; ++i) {
    Json row = Json::array();
    for (std::int64_t j = 0; j < n; ++j) row.push_back(std::round(1000 * values[i * n + j]) / 1000);
    rows.push_back(std::move(row));
  }
  return rows;
}

// One matrix a head of weights[H, N, N].
Json heads_json(const Tensor& weights, std::int64_t n, const std::vector<std::int64_t>& chosen) {
  Json heads = Json::array();
  for (std::int64_t head = 0; head < weights.size(0); ++head) {
    heads.push_back(contains(chosen, head + 1)
                        ? matrix_json(weights.slice(0, head, head + 1).squeeze(0), n)
                        : Json(nullptr));
  }
  return heads;
}

}  // namespace

std::string attention_maps_json(const LanguageModel& model, const Task& task,
                                const ChosenHeads& chosen) {
  const Batch batch = task.batch(Split::test, 0, 1);
  const std::int64_t n = std::min(batch.inputs.size(1), most_positions);
  Json object = {{"positions", n}, {"layers", Json::array()}};
  std::int64_t number = 0;
  for (const AttentionDiagnostics& layer : diagnose(model, task, /*batch_size=*/1)) {
    const bool is_shown = contains(chosen.layers, ++number) && layer.weights.defined();
    object["layers"].push_back(is_shown ? heads_json(layer.weights, n, chosen.heads)
                                        : Json::array());
  }
  const Tensor tokens = batch.inputs.slice(0, 0, 1).squeeze(0).slice(0, 0, n).contiguous();
  const std::int32_t* ids = tokens.data<std::int32_t>();
  object["tokens"] = std::vector<std::int32_t>(ids, ids + n);
  return object.dump() + "\n";
}

}  // namespace mobius
