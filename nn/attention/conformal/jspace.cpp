#include "nn/attention/conformal/jspace.h"

#include <cmath>
#include <limits>

#include "core/error.h"

namespace mobius {

namespace {

void require_exponent(double s) {
  if (!(s > 0) || !std::isfinite(s))
    throw Error("conformal: expected an exponent s above 0, got {}", s);
}

}  // namespace

ConformalKernel conformal_kernel(ConformalWeight weight, std::int64_t d, std::optional<double> s,
                                 std::optional<double> gamma) {
  if (d < 2) throw ConfigError("conformal: expected a head dimension of at least 2, got {}", d);
  if (weight != ConformalWeight::custom && (s || gamma))
    throw ConfigError("conformal: s and gamma belong to weight custom alone");
  const double dim = static_cast<double>(d);
  switch (weight) {
    case ConformalWeight::newton:
      // In the plane Newton's potential is a logarithm; the Poisson kernel takes its place.
      return d == 2 ? ConformalKernel{weight, d, 1, 1}
                    : ConformalKernel{weight, d, (dim - 2) / 2, 0};
    case ConformalWeight::poisson:
      return {weight, d, dim / 2, 1};
    case ConformalWeight::jacobian:
      return {weight, d, dim - 1, dim - 1};
    case ConformalWeight::custom:
      break;
  }
  if (!s || !(*s > 0)) throw ConfigError("conformal: weight custom needs s > 0");
  return {weight, d, *s, gamma.value_or(0)};
}

Radius beta_to_radius(const Variable& beta, double s) {
  const BallRadiusVariables point =
      ball_radius(reshape(beta, {-1, 1}), {},
                  {.s = s, .largest_beta = std::numeric_limits<double>::infinity()});
  const auto like_beta = [&](const Variable& x) { return reshape(x, beta.shape()); };
  return {like_beta(point.r), like_beta(point.one_minus_r), like_beta(point.sharpness)};
}

double radius_to_beta(double r, double s) { return 2 * s * r / ((1 - r) * (1 + r)); }

BallPoints embed_in_ball(const Variable& q, const Variable& k, const Variable& alpha, double s) {
  const auto [qhat, length] = polar(q);  // [B, H, n_q, 1]
  const bool is_one_a_head = alpha.ndim() < 2 || alpha.size(-2) == 1;
  const BallRadiusVariables point =
      ball_radius(is_one_a_head ? length : alpha * length, is_one_a_head ? alpha : Variable(),
                  {.s = s,
                   .factor = 1 / std::sqrt(static_cast<double>(q.size(-1))),
                   .largest_beta = radius_to_beta(largest_radius, s)});
  return {.radius = {point.r, point.one_minus_r, point.sharpness},
          .qhat = qhat,
          .zeta = polar(k).direction};
}

Variable log_normalizer(const Radius& radius, const ConformalKernel& kernel) {
  const Variable &r = radius.r, &one_minus_r = radius.one_minus_r;
  const auto [weight, d, s, gamma] = kernel;
  require_exponent(s);
  const Variable log_one_minus_r = log(one_minus_r);
  if (weight == ConformalWeight::custom) {
    const double half = static_cast<double>(d) / 2;
    return scale(log_one_minus_r, 2 * s) + log_hyp2f1(s, s - half + 1, half, square(r));
  }
  // log(1 - r^2) = log(1 - r) + log(1 + r)
  return scale(log_one_minus_r, 2 * s - gamma) - scale(log1p(r), gamma);
}

double resolution_limit(double delta, double n, double s) {
  return -std::expm1(std::log(delta / n) / (2 * s));
}

}  // namespace mobius
