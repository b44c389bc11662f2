// Attention layers for tests.
#pragma once

#include "nn/attention/attention.h"
#include "tests/device.h"

namespace mobius::testing {

inline AttentionContext layer_context(std::int64_t d_model, std::int64_t n_heads,
                                      Positions positions = Positions::none) {
  return {.d_model = d_model,
          .n_heads = n_heads,
          .bias = true,
          .positions = positions,
          .rope_base = 100,
          .max_distance = 3,
          .init = Initializer(/*seed=*/9, /*std=*/0.4, /*orthogonal=*/false, DType::f64, device())};
}

}  // namespace mobius::testing
