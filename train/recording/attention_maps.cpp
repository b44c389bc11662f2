#include "train/recording/attention_maps.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace mobius {

using Json = nlohmann::json;

namespace {

constexpr std::int64_t most_positions = 96;  // what a page can show

bool contains(const std::vector<std::int64_t>& chosen, std::int64_t number) {
  return chosen.empty() || std::find(chosen.begin(), chosen.end(), number) != chosen.end();
}

// weights: [n, n].
Json matrix_json(const Tensor& weights) {
  const std::int64_t n = weights.size(0);
  const std::vector<double> values = weights.to_vector<double>();
  Json rows = Json::array();
  for (std::int64_t i = 0; i < n; ++i) {
    Json row = Json::array();
    for (std::int64_t j = 0; j < n; ++j)
      row.push_back(std::round(1000 * values[static_cast<std::size_t>(i * n + j)]) / 1000);
    rows.push_back(std::move(row));
  }
  return rows;
}

// weights: [H, n, n].
Json heads_json(const Tensor& weights, const std::vector<std::int64_t>& chosen) {
  Json heads = Json::array();
  for (std::int64_t head = 0; head < weights.size(0); ++head) {
    heads.push_back(contains(chosen, head + 1)
                        ? matrix_json(weights.slice(0, head, head + 1).squeeze(0))
                        : Json(nullptr));
  }
  return heads;
}

}  // namespace

std::vector<LayerDiagnostics> diagnose(const LanguageModel& model, const Tensor& tokens,
                                       Diagnosis diagnosis) {
  const NoGradGuard no_grad;
  DiagnosticsSink sink(diagnosis);
  model.hidden(RowIndex("language model", tokens, model.vocab_size()).to(model.device()),
               {.sink = &sink});
  return sink.layers();
}

// The model is causal, so its first positions do not depend on the others.
std::string attention_maps_json(const LanguageModel& model, const Task& task,
                                const ChosenHeads& chosen) {
  const Tensor sequence = task.batch(Split::test, 0, 1).inputs;
  const std::int64_t n = std::min(sequence.size(1), most_positions);
  const Tensor tokens = sequence.slice(1, 0, n).contiguous();
  Json object = {{"positions", n}, {"layers", Json::array()}};
  std::int64_t number = 0;
  for (const LayerDiagnostics& layer : diagnose(model, tokens, Diagnosis::weights)) {
    const bool is_shown = contains(chosen.layers, ++number) && layer.weights.defined();
    object["layers"].push_back(is_shown ? heads_json(layer.weights, chosen.heads) : Json::array());
  }
  const std::int32_t* ids = tokens.data<std::int32_t>();
  object["tokens"] = std::vector<std::int32_t>(ids, ids + n);
  return object.dump() + "\n";
}

}  // namespace mobius
