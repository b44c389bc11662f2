#include "train/studies/identities/means.h"

namespace mobius::identities {

namespace {

// 2F1(a, b; c; z) for 0 <= z < 1, by its series.
Real hypergeometric(const Real& a, const Real& b, const Real& c, const Real& z) {
  const Real negligible = std::numeric_limits<Real>::epsilon();
  Real sum = 1, term = 1;
  for (int n = 0; abs(term) > negligible * abs(sum); ++n) {
    term *= (a + n) * (b + n) / ((c + n) * (n + 1)) * z;
    sum += term;
  }
  return sum;
}

// E[K] as an integral.
Real integrated_mean(std::int64_t d, const Exponents& e, const Real& r) {
  return sphere_mean(d, [&](const Real& u) { return kernel(e, r, u); });
}

// The coefficient of z^2 in (1 - z)^gamma 2F1(a, b; c; z) with gamma = a b / c.
Real second_coefficient(const Real& a, const Real& b, const Real& c) {
  const Real gamma = a * b / c;
  return gamma * (gamma - 1) / 2 - gamma * a * b / c +
         a * (a + 1) * b * (b + 1) / (2 * c * (c + 1));
}

}  // namespace

Real mean_of_kernel(std::int64_t d, const Exponents& e, const Real& r) {
  const Real z = r * r, half = Real(d) / 2;
  return pow(Real(1 - z), e.gamma) * hypergeometric(e.s, e.s - half + 1, half, z);
}

double imbalance(std::int64_t d, const Real& s) {
  const Exponents e{"", s, balanced_gamma(d, s)};
  Real largest = 0;
  for (const double r : {0.3, 0.6, 0.9})
    largest = std::max(largest, Real(abs(mean_of_kernel(d, e, r) - 1)));
  return static_cast<double>(largest);
}

std::vector<Check> mean_checks() {
  std::vector<Check> checks;
  for (const auto exponents : {newton, poisson, jacobian})
    checks.push_back(
        {"mean, " + exponents(3).name, "E[K] = 1", true, true, [exponents](const Case& c) {
           return relative(integrated_mean(c.d, exponents(c.d), c.r), 1);
         }});
  checks.push_back({"mean, custom", "E[K] = (1 - r^2)^gamma 2F1(s, s - d/2 + 1; d/2; r^2)", true,
                    true, [](const Case& c) {
                      const Exponents e{"custom", c.s, c.gamma};
                      return relative(integrated_mean(c.d, e, c.r), mean_of_kernel(c.d, e, c.r));
                    }});
  checks.push_back({"mean, other exponents", "E[K] = 1 for s between newton's and poisson's", false,
                    true, [](const Case& c) {
                      const Real s = Real(c.d) / 2 - Real(0.5);
                      const Exponents e{"", s, balanced_gamma(c.d, s)};
                      return relative(integrated_mean(c.d, e, c.r), 1);
                    }});
  checks.push_back({"three balances",
                    "[r^4] E[K] = -gamma (s - d/2) (s - d + 1) / (d (d/2 + 1)) if [r^2] E[K] = 0",
                    true, false, [](const Case& c) {
                      const Real half = Real(c.d) / 2, b = c.s - half + 1;
                      const Real gamma = balanced_gamma(c.d, c.s);
                      const Real expected =
                          -gamma * (c.s - half) * (b - half) / (2 * half * (half + 1));
                      return Real(abs(second_coefficient(c.s, b, half) - expected));
                    }});
  return checks;
}

}  // namespace mobius::identities
