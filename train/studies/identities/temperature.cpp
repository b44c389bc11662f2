#include "train/studies/identities/kernel.h"

namespace mobius::identities {

namespace {

using boost::math::differentiation::make_fvar;

Real beta_of(const Real& r, const Real& s) { return 2 * s * r / (1 - r * r); }
Real radius_of(const Real& beta, const Real& s) {
  return beta / (sqrt(Real(s * s + beta * beta)) + s);
}

// The distance of radius r from the centre in the hyperbolic metric of the ball.
Real hyperbolic(const Real& r) { return 2 * atanh(r); }

// d/du log K(r, u), exact.
Real slope_at(const Case& c, const Real& u) {
  const auto k = kernel(Exponents{"", c.s, c.gamma}, c.r, make_fvar<Real, 1>(u));
  return k.derivative(1) / k.derivative(0);
}

// Returns the coefficient of r^n in log K(r, u) - beta(r) u at r = 0.
Real small_radius_coefficient(const Case& c, unsigned n) {
  const auto r = make_fvar<Real, 4>(Real(0));
  const auto log_k = log(kernel(Exponents{"", c.s, c.gamma}, r, c.u));
  const auto beta = 2 * c.s * r / (1 - r * r);
  return (log_k - beta * c.u).derivative(n) / boost::math::factorial<Real>(n);
}

std::vector<Check> radius_checks() {
  return {
      {"temperature and radius", "beta(r(beta)) = beta, beta(r) = 2 s r / (1 - r^2)", true, false,
       [](const Case& c) {
         const Real beta = 100 * c.r * c.s;
         return relative(beta_of(radius_of(beta, c.s), c.s), beta);
       }},
      {"radius and temperature", "r(beta(r)) = r, r(beta) = beta / (sqrt(s^2 + beta^2) + s)", true,
       false, [](const Case& c) { return relative(radius_of(beta_of(c.r, c.s), c.s), c.r); }},
      {"temperature and distance", "beta = s sinh(rho), rho = 2 artanh(r) the hyperbolic distance",
       true, false,
       [](const Case& c) { return relative(beta_of(c.r, c.s), c.s * sinh(hyperbolic(c.r))); }},
      {"range of the log kernel", "log K(r, 1) - log K(r, -1) = 2 s rho", true, false,
       [](const Case& c) {
         const Exponents e{"", c.s, c.gamma};
         const Real range = log(kernel(e, c.r, Real(1))) - log(kernel(e, c.r, Real(-1)));
         return relative(range, 2 * c.s * hyperbolic(c.r));
       }},
  };
}

std::vector<Check> slope_checks() {
  return {
      {"slope at u = r", "d/du log K = beta", true, false,
       [](const Case& c) { return relative(slope_at(c, c.r), beta_of(c.r, c.s)); }},
      {"slope at u = 1", "d/du log K = 2 s r / (1 - r)^2 = beta exp(rho)", true, false,
       [](const Case& c) {
         return relative(slope_at(c, 1), beta_of(c.r, c.s) * exp(hyperbolic(c.r)));
       }},
      {"slope at u = 1, without the factor", "d/du log K = beta", false, false,
       [](const Case& c) { return relative(slope_at(c, 1), beta_of(c.r, c.s)); }},
      {"slope at u = 0", "d/du log K = s tanh(rho)", true, false,
       [](const Case& c) { return relative(slope_at(c, 0), c.s * tanh(hyperbolic(c.r))); }},
  };
}

// A coefficient that may be 0 is compared on the scale of s + gamma.
std::vector<Check> small_radius_checks() {
  return {
      {"small radius, r^1", "log K(r, u) = beta u + O(r^2)", true, false,
       [](const Case& c) {
         return std::max(Real(abs(small_radius_coefficient(c, 0))),
                         Real(abs(small_radius_coefficient(c, 1))));
       }},
      {"small radius, r^2", "the next term is r^2 (s (2 u^2 - 1) - gamma)", true, false,
       [](const Case& c) {
         const Real expected = c.s * (2 * c.u * c.u - 1) - c.gamma;
         return Real(abs(small_radius_coefficient(c, 2) - expected) / (c.s + c.gamma));
       }},
      {"small radius, r^3", "and the next r^3 s (8 u^3 / 3 - 4 u)", true, false,
       [](const Case& c) {
         const Real expected = c.s * (8 * c.u * c.u * c.u / 3 - 4 * c.u);
         return Real(abs(small_radius_coefficient(c, 3) - expected) / c.s);
       }},
      {"small radius, no r^2", "log K(r, u) = beta u + O(r^3)", false, false,
       [](const Case& c) { return Real(abs(small_radius_coefficient(c, 2)) / (c.s + c.gamma)); }},
  };
}

}  // namespace

std::vector<Check> temperature_checks() {
  std::vector<Check> checks = radius_checks();
  for (std::vector<Check> more : {slope_checks(), small_radius_checks()})
    checks.insert(checks.end(), more.begin(), more.end());
  return checks;
}

}  // namespace mobius::identities
