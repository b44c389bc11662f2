// Attention layers for tests.
#pragma once

#include "nn/attention/attention.h"
#include "tests/device.h"

namespace mobius::testing {

inline AttentionContext layer_context(std::int64_t d_model, std::int64_t n_heads,
                                      Positions positions = Positions::none) {
  ModelOptions model;
  model.d_model = d_model;
  model.n_heads = n_heads;
  model.positions = positions;
  if (positions == Positions::rope) model.rope_base = 100;
  if (positions == Positions::relative) model.max_distance = 3;
  return {.model = model,
          .init = Initializer(/*seed=*/9, /*std=*/0.4, /*orthogonal=*/false, DType::f64,
                              testing::device())};
}

// What the layer said under this name, one number a head; empty where it did not.
inline std::vector<double> told(const DiagnosticsSink& sink, const std::string& name,
                                std::size_t layer = 0) {
  if (layer >= sink.layers().size()) return {};
  for (const Diagnostic& value : sink.layers()[layer].values)
    if (value.name == name) return value.heads;
  return {};
}

// What its parameters mean, without a forward pass.
inline std::vector<double> parameter_told(const Attention& layer, const std::string& name) {
  DiagnosticsSink sink;
  layer.tell_parameters(sink);
  return told(sink, name);
}

}  // namespace mobius::testing
