// The mask of attention: which keys a query sees.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/tensor.h"

namespace mobius {

/// Query i of Nq has position p = i + (Nk - Nq) of the Nk keys.
struct AttentionMask {
  bool causal = false;        // only j <= p
  Tensor mask = {};           // undefined, or u8, broadcastable to [B, H, Nq, Nk]: only where not 0
  std::int64_t window = 0;    // > 0: only |p - j| < window ...
  std::int64_t stride = 0;    // ... or, when > 0, (p - j) mod stride == 0 ...
  std::int64_t n_global = 0;  // ... or j < n_global; none of the three may be negative
  Tensor selected = {};  // undefined, or i32, broadcastable to [B, H, Nq, K]: only these keys, in
                         // ascending order, the rest of a row being Nk; see attention_topk()

  /// Whether the mask is at most causal.
  bool is_simple() const { return !mask.defined() && window == 0 && !selected.defined(); }
};

/// Throws Error, naming `op`, unless the mask's numbers fit together, and ShapeError unless its
/// tensors have their types, lie on `device` and broadcast to the shape of the scores.
void require_mask_fits(std::string_view op, const AttentionMask& mask, const Shape& scores,
                       Device device);

}  // namespace mobius
