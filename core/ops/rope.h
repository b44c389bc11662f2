// Rotary position embedding (Su et al. 2021): docs/MATH.md, section 5.
#pragma once

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

/// Rotates the pairs (x_t, x_{t+d/2}) of x[..., N, d], d even, by sign * position * base^(-2t/d),
/// position = offset + n. A sign of -1 rotates back, which is the backward pass.
Tensor rope(const Tensor& x, double base, std::int64_t offset, int sign = 1);

class RopeKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "rope";

  /// x is strided except along the last dimension.
  virtual void rope(const Tensor& x, double base, std::int64_t offset, int sign,
                    const Tensor& y) = 0;
};

}  // namespace mobius
