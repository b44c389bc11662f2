// Which keys a query sees.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/tensor.h"

namespace mobius {

namespace pieces {
#include "core/attention_pieces.inc"
}

/// Query i of Nq stands at position p = i + (Nk - Nq) of the Nk keys.
struct AttentionMask {
  bool causal = false;        // only j <= p
  Tensor mask = {};           // undefined, or u8, broadcastable to [B, H, Nq, Nk]: only where not 0
  std::int64_t window = 0;    // > 0: only |p - j| < window ...
  std::int64_t stride = 0;    // ... or, when > 0, (p - j) mod stride == 0 ...
  std::int64_t n_global = 0;  // ... or j < n_global; none of the three may be negative

  /// What window, stride and n_global say of a query at position p and key j.
  bool pattern_sees(std::int64_t p, std::int64_t j) const {
    return pieces::pattern_sees(p, j, window, stride, n_global);
  }
};

/// Throws Error, naming `op`, unless the mask's numbers fit together, and ShapeError unless its
/// tensor is u8, lies on `device` and broadcasts to the shape of the scores.
void require_mask_fits(std::string_view op, const AttentionMask& mask, const Shape& scores,
                       Device device);

}  // namespace mobius
