#include "core/ops/points.h"

#include <cmath>

#include "core/ops/checks.h"

namespace mobius {

namespace {

void require_matrix(std::string_view op, const Tensor& x) {
  require_real(op, x);
  if (x.ndim() < 2) throw ShapeError("{}: x {}: expected [..., n, d]", op, to_string(x.shape()));
}

void require_finite_at_least_0(std::string_view op, std::string_view what, double value) {
  if (!(value >= 0) || !std::isfinite(value))
    throw Error("{}: expected {} of at least 0, got {}", op, what, value);
}

void require_halves(std::string_view op, const Tensor& x, const GaussianPoints& how) {
  require_matrix(op, x);
  require_finite_at_least_0(op, "a rope_base", how.rope_base);
  require_finite_at_least_0(op, "a least_sigma", how.least_sigma);
  const std::int64_t parts = how.rope_base == 0 ? 2 : 4;
  if (x.size(-1) % parts != 0) {
    throw ShapeError("{}: x {}: expected [..., n, 2d]{}", op, to_string(x.shape()),
                     parts == 4 ? " with even d, to be rotated" : "");
  }
}

}  // namespace

PolarResult polar(const Tensor& x) {
  require_matrix("polar", x);
  PolarResult result{x.empty_like(), Tensor::empty(with_last(x.shape(), 1), x.dtype(), x.device())};
  kernels(x, &Backend::points)->polar(with_dense_rows(x), result.direction, result.length);
  return result;
}

Tensor polar_backward(const PolarResult& result, const Tensor& grad_direction,
                      const Tensor& grad_length) {
  constexpr std::string_view op = "polar_backward";
  const Tensor& direction = result.direction;
  require_matrix(op, direction);
  const Shape lengths = with_last(direction.shape(), 1);
  require_like(op, "length", result.length, direction, lengths);
  require_optional(op, "grad_direction", grad_direction, direction, direction.shape());
  require_optional(op, "grad_length", grad_length, direction, lengths);
  Tensor grad_x = direction.empty_like();
  kernels(grad_x, &Backend::points)
      ->polar_backward(direction.contiguous(), result.length.contiguous(),
                       contiguous_if_defined(grad_direction), contiguous_if_defined(grad_length),
                       grad_x);
  return grad_x;
}

GaussianPointsResult gaussian_points(const Tensor& x, const GaussianPoints& how) {
  require_halves("gaussian_points", x, how);
  GaussianPointsResult result{x.empty_like(),
                              Tensor::empty(with_last(x.shape(), 1), x.dtype(), x.device())};
  kernels(x, &Backend::points)
      ->gaussian_points(with_dense_rows(x), how, result.points, result.squared_length);
  return result;
}

Tensor gaussian_points_backward(const Tensor& x, const GaussianPoints& how, const Tensor& points,
                                const Tensor& grad_points, const Tensor& grad_squared_length) {
  constexpr std::string_view op = "gaussian_points_backward";
  require_halves(op, x, how);
  require_like(op, "points", points, x, x.shape());
  require_optional(op, "grad_points", grad_points, x, x.shape());
  require_optional(op, "grad_squared_length", grad_squared_length, x, with_last(x.shape(), 1));
  Tensor grad_x = x.empty_like();
  kernels(x, &Backend::points)
      ->gaussian_points_backward(with_dense_rows(x), how, points.contiguous(),
                                 contiguous_if_defined(grad_points),
                                 contiguous_if_defined(grad_squared_length), grad_x);
  return grad_x;
}

}  // namespace mobius
