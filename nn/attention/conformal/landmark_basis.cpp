#include "nn/attention/conformal/landmark_basis.h"

#include <limits>

#include "core/error.h"
#include "nn/attention/weights.h"

namespace mobius {

namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();
// The largest logarithm of a factor on a kernel, as for near keys: e^80 is finite in f32.
constexpr double largest_log_factor = 80;

// 2r / (1-r)^2, with which log Kt = -s log1p(sharpness (1-u)).
double sharpness_of(double r) { return 2 * r / ((1 - r) * (1 - r)); }

Variable constant(double x, const Variable& like) {
  return Variable(Tensor::full({}, x, like.dtype(), like.device()));
}

// u8 [m, m]: 1 on the diagonal.
Tensor diagonal_of(std::int64_t m, Device device) {
  std::vector<std::uint8_t> values(static_cast<std::size_t>(m * m));
  for (std::int64_t a = 0; a < m; ++a) values[static_cast<std::size_t>(a * (m + 1))] = 1;
  return Tensor::from(values, {m, m}, device);
}

// x[B, 1 or G, ...] for every one of n_heads heads.
Variable for_heads(const Variable& x, std::int64_t n_heads) {
  return x.size(1) == 1 ? x : for_every_head(x, n_heads);
}

// Kt(r, u) of products u: (1 + sharpness (1-u))^-s. Rounding may lift u above 1, and a large
// sharpness would turn the base negative.
Variable kernel_of_products(const Variable& u, double sharpness, double s) {
  Variable base = affine(u, -sharpness, 1 + sharpness);
  if (sharpness > 1e4) base = clamp(base, 1, no_limit);
  return power(base, -s);
}

}  // namespace

LandmarkBasis::LandmarkBasis(const Variable& landmarks, const ConformalKernel& kernel, double r_far,
                             double ridge)
    : kernel_(kernel), r_far_(r_far) {
  if (landmarks.ndim() != 4 || landmarks.size(3) != kernel.d) {
    throw ShapeError("landmark basis: expected landmarks [B or 1, G or 1, m, {}], got {}", kernel.d,
                     to_string(landmarks.shape()));
  }
  if (!(r_far > 0 && r_far < 1))
    throw Error("landmark basis: expected r_far in (0, 1), got {}", r_far);
  if (!(ridge > 0)) throw Error("landmark basis: expected a ridge above 0, got {}", ridge);
  xi_ = polar(landmarks).direction;
  // A landmark's kernel with itself is 1 wherever it lies. Left to the products, that would cost
  // the digits of the gradient: far larger numbers, all along the landmark, would have to cancel.
  const Variable gram =
      where(diagonal_of(n_features(), xi_.device()), constant(1 + ridge, xi_), features(xi_));
  whitener_ = inverse_cholesky(gram);
}

Variable LandmarkBasis::features(const Variable& zeta) const {
  return kernel_of_products(matmul(zeta, transpose(xi_, -1, -2)), sharpness_of(r_far_), kernel_.s);
}

// With a factor c = f^-s on the kernel, c Kt = (f (1 + sharpness (1-u)))^-s: the factor costs
// nothing for each landmark. One over the mean of Kt is such a factor.
Variable LandmarkBasis::kernel_of(const Variable& qhat, const Radius& radius,
                                  bool unit_mean) const {
  const Radius near{.r = minimum(radius.r, constant(r_far_, qhat)),
                    .one_minus_r = maximum(radius.one_minus_r, constant(1 - r_far_, qhat))};
  Variable sharpness = scale(near.r, 2) / square(near.one_minus_r);
  Variable at_zero = affine(sharpness, 1, 1);
  if (unit_mean) {
    const Variable log_z = clamp(log_normalizer(near, kernel_), -largest_log_factor, no_limit);
    const Variable f = exp(scale(log_z, 1 / kernel_.s));
    sharpness = sharpness * f;
    at_zero = at_zero * f;
  }
  const Variable xi = for_heads(xi_, qhat.size(1));
  return power(at_zero - matmul(qhat * sharpness, transpose(xi, -1, -2)), -kernel_.s);
}

Variable LandmarkBasis::coeffs(const Variable& qhat, const Radius& radius) const {
  const Variable w = for_heads(whitener_, qhat.size(1));
  return matmul(matmul(kernel_of(qhat, radius, /*unit_mean=*/false), transpose(w, -1, -2)), w);
}

Variable LandmarkBasis::query_features(const BallPoints& points) const {
  const Variable w = for_heads(whitener_, points.qhat.size(1));
  return matmul(kernel_of(points.qhat, points.radius, /*unit_mean=*/true), transpose(w, -1, -2));
}

Variable LandmarkBasis::key_features(const Variable& zeta) const {
  return matmul(features(zeta), transpose(whitener_, -1, -2));
}

}  // namespace mobius
