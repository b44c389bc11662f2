// The pieces of the attention kernel compile for a CUDA device: each is called from one. Compiled
// by a test, never run.
#include <cstdint>

namespace pieces {
#include "core/attention_pieces.inc"
}

__global__ void every_piece(const float* x, std::int64_t i, bool* sees, float* y) {
  const float a = pieces::conformal_distance(x[0], x[1], 1.0f);
  const float w = pieces::positive_power(1.0f / a, 31u);
  const float grad_log_w = pieces::softmax_gradient(w, x[2], x[3]);
  y[i] = pieces::conformal_gradient(grad_log_w, 31.0f, 1.0f / a);
  sees[i] = pieces::pattern_sees<std::int64_t>(i, threadIdx.x, 64, 128, 4);
}
