// Geometry of conformal attention: a key is a point of the unit sphere and a query a point inside
// the ball. Attention sharpens as the query nears the sphere (docs/MATH.md, section 1).
//
// Legend: B batch, H heads, d dimension of a head; r radius of a query in [0, 1), u cosine of the
// angle between query and key.
#pragma once

#include <cstdint>
#include <optional>

#include "autograd/ops.h"

namespace mobius {

enum class ConformalWeight { newton, poisson, jacobian, custom };

/// K(r, u) = (1 - r^2)^gamma / |query - key|^(2 s), where |query - key|^2 = 1 + r^2 - 2 r u.
struct ConformalKernel {
  ConformalWeight weight;
  std::int64_t d;
  double s;
  double gamma;
};

/// The exponents of a weight in dimension d:
///   newton    s = (d-2)/2, gamma = 0: Newton's potential, harmonic in the query; d = 2: (1, 1)
///   poisson   s = d/2,     gamma = 1: the Poisson kernel of the ball
///   jacobian  s = d-1,     gamma = d-1: the boundary Jacobian of a Moebius map
///   custom    the given s > 0 and gamma (0 by default)
/// Throws ConfigError if d < 2, or if s or gamma is given for another weight.
ConformalKernel conformal_kernel(ConformalWeight weight, std::int64_t d,
                                 std::optional<double> s = {}, std::optional<double> gamma = {});

/// A radius, its distance to the sphere, which 1 - r would round away near the sphere, and
/// t = 2r / (1 + r^2), with which |query - key|^2 = (1 + r^2)(1 - t u) keeps the digits of small u.
struct Radius {
  Variable r;
  Variable one_minus_r;
  Variable sharpness{};  // undefined: conformal_call() derives it from r
};

/// r = beta / (sqrt(s^2 + beta^2) + s) for inverse temperatures beta >= 0, elementwise. This and
/// the functions below throw Error if s <= 0.
Radius beta_to_radius(const Variable& beta, double s);
/// Its inverse: beta = 2 s r / (1 - r^2).
double radius_to_beta(double r, double s);

/// The radius of a query is capped here, with gradient 0 in beta.
constexpr double largest_radius = 0.99999;

/// Queries and keys as points of the ball.
struct BallPoints {
  Radius radius;  // of the queries, [B, H, n_q, 1]
  Variable qhat;  // their directions, [B, H, n_q, d]
  Variable zeta;  // keys, [B, H, n_k, d], on the sphere
};

/// Takes q[B, H, n_q, d], k[B, H, n_k, d], and alpha broadcastable to [B, H, n_q, 1]. The inverse
/// temperature of a query is alpha |q| / sqrt(d). A zero query lies in the centre. A zero key stays
/// 0 and has u = 0 with every query.
BallPoints embed_in_ball(const Variable& q, const Variable& k, const Variable& alpha, double s);

/// Returns the log of the mean of K(r, u) / K(r, 1) over the uniform sphere, elementwise in r:
/// 2 s log(1-r) - gamma log(1-r^2), and for custom exponents
/// 2 s log(1-r) + log 2F1(s, s - d/2 + 1; d/2; r^2).
Variable log_normalizer(const Radius& radius, const ConformalKernel& kernel);

/// r_n = 1 - (delta/n)^(1/(2s)). Beyond it, the mean over the sphere no longer approximates the
/// mean over n keys.
double resolution_limit(double delta, double n, double s);

}  // namespace mobius
