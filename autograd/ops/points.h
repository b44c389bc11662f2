// Vectors as points.
#pragma once

#include "autograd/variable.h"
#include "core/ops/points.h"

namespace mobius {

/// x[..., n, d] = length * direction.
struct Polar {
  Variable direction;  // x / max(|x|, least_length)
  Variable length;     // |x|, [..., n, 1]; its gradient at x = 0 is 0
};
Polar polar(const Variable& x);
/// [mu ; raw] as points of Wasserstein-2 space: see GaussianPointsResult.
struct GaussianPointVariables {
  Variable points;          // [R mu ; sigma], [..., n, 2d]
  Variable squared_length;  // of the points, [..., n, 1]
};
GaussianPointVariables gaussian_points(const Variable& x, const GaussianPoints& how);

}  // namespace mobius
