// Values of the conformal kernel in f64, for studies: the closed forms of docs/MATH.md, section 1,
// and what the attention layer computes.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "nn/attention/conformal/conformal.h"

namespace mobius {

/// The weights whose exponents follow from the dimension, by name.
inline constexpr std::array<std::pair<const char*, ConformalWeight>, 3> named_weights = {
    {{"newton", ConformalWeight::newton},
     {"poisson", ConformalWeight::poisson},
     {"jacobian", ConformalWeight::jacobian}}};

/// One number in f64, which has no gradient.
inline Variable f64_scalar(double x) { return Variable(Tensor::full({1}, x, DType::f64)); }

/// A radius and its distance to the sphere.
struct RadiusValue {
  double r, one_minus_r;
};

/// The radius of an inverse temperature, as the layer computes it in f64, without its upper limit.
inline RadiusValue radius_of(double beta, double s) {
  const Radius radius = beta_to_radius(f64_scalar(beta), s);
  return {radius.r.item(), radius.one_minus_r.item()};
}

/// Throws ConfigError if the layer would cap the radius of this inverse temperature.
inline void require_below_cap(double beta, double s) {
  const double most = radius_to_beta(largest_radius, s);
  if (beta > most) {
    throw ConfigError("expected at most {}, where the radius meets its cap {} (s = {}), got {}",
                      most, largest_radius, s, beta);
  }
}

/// log Kt(r, u) = -s log1p(2 r / (1-r)^2 (1-u)), at most 0.
inline double log_weight(const RadiusValue& radius, double u, double s) {
  const auto [r, one_minus_r] = radius;
  return -s * std::log1p(2 * r / (one_minus_r * one_minus_r) * (1 - u));
}

/// d log Kt / du.
inline double log_weight_slope(const RadiusValue& radius, double u, double s) {
  const auto [r, one_minus_r] = radius;
  return 2 * s * r / (one_minus_r * one_minus_r + 2 * r * (1 - u));
}

/// log E[Kt], the mean over the sphere, as the layer computes it in f64.
inline double log_mean(const RadiusValue& radius, const ConformalKernel& kernel) {
  return log_normalizer({f64_scalar(radius.r), f64_scalar(radius.one_minus_r)}, kernel).item();
}

/// Unit vectors [1, 1, n, d] at these cosines with the first axis.
inline Tensor keys_at(const std::vector<double>& cosines, std::int64_t d) {
  const auto n = static_cast<std::int64_t>(cosines.size());
  std::vector<double> elements(cosines.size() * static_cast<std::size_t>(d), 0.0);
  for (std::size_t i = 0; i < cosines.size(); ++i) {
    const std::size_t first = i * static_cast<std::size_t>(d);
    elements[first] = cosines[i];
    elements[first + 1] = std::sqrt((1 - cosines[i]) * (1 + cosines[i]));
  }
  return Tensor::from(elements, {1, 1, n, d});
}

/// A query [1, 1, 1, d] along the first axis, whose inverse temperature is beta if alpha is 1.
inline Tensor query_of(double beta, std::int64_t d) {
  return scale(keys_at({1}, d), beta * std::sqrt(static_cast<double>(d)));
}

}  // namespace mobius
