// Directions and lengths of vectors, and Gaussians as points of Wasserstein-2 space. The vectors
// lie along the last dimension of x[..., N, D].
#pragma once

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

/// A shorter vector has no direction: see polar().
constexpr double least_length = 1e-12;

struct PolarResult {
  Tensor direction;  // x / max(|x|, least_length)
  Tensor length;     // |x|, [..., N, 1]
};
PolarResult polar(const Tensor& x);
/// An undefined gradient is 0.
Tensor polar_backward(const PolarResult& result, const Tensor& grad_direction,
                      const Tensor& grad_length);

/// How [mu ; raw] becomes a point of Wasserstein-2 space: see gaussian_points().
struct GaussianPoints {
  double rope_base = 0;     // 0: not rotated
  std::int64_t offset = 0;  // position of the first row
  double least_sigma = 0;
};

/// Gaussians N(mu, diag(sigma^2)) given as x = [mu ; raw], [..., N, 2d], as points whose distance
/// is that of Wasserstein (docs/MATH.md, section 3): sigma = softplus(raw) + least_sigma, and R
/// rotates as rope() does, or is the identity if rope_base is 0.
struct GaussianPointsResult {
  Tensor points;          // [R mu ; sigma], [..., N, 2d]
  Tensor squared_length;  // of the points, [..., N, 1]
};
GaussianPointsResult gaussian_points(const Tensor& x, const GaussianPoints& how);
/// An undefined gradient is 0.
Tensor gaussian_points_backward(const Tensor& x, const GaussianPoints& how, const Tensor& points,
                                const Tensor& grad_points, const Tensor& grad_squared_length);

/// x is strided except along the last dimension. The gradients of results may be undefined.
class PointsKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "points";

  virtual void polar(const Tensor& x, const Tensor& direction, const Tensor& length) = 0;
  virtual void polar_backward(const Tensor& direction, const Tensor& length,
                              const Tensor& grad_direction, const Tensor& grad_length,
                              const Tensor& grad_x) = 0;
  virtual void gaussian_points(const Tensor& x, const GaussianPoints& how, const Tensor& points,
                               const Tensor& squared_length) = 0;
  virtual void gaussian_points_backward(const Tensor& x, const GaussianPoints& how,
                                        const Tensor& points, const Tensor& grad_points,
                                        const Tensor& grad_squared_length,
                                        const Tensor& grad_x) = 0;
};

}  // namespace mobius
