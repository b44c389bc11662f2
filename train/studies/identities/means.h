// Which exponents give the kernel the mean 1 over the sphere.
//
//   E[K] = (1 - z)^gamma 2F1(a, b; c; z),   z = r^2, a = s, b = s - d/2 + 1, c = d/2
//
// The coefficient of z is a b / c - gamma, so gamma = a b / c. That of z^2 is then
// -gamma (a - c) (b - c) / (2 c (c + 1)). So E[K] = 1 for every radius needs b = 0 (newton), a = c
// (poisson) or b = c (jacobian), and Euler's transformation shows that each suffices: there are no
// other exponents, but for s = 0.
#pragma once

#include "train/studies/identities/kernel.h"

namespace mobius::identities {

/// E[K(r, u)] in closed form.
Real mean_of_kernel(std::int64_t d, const Exponents& e, const Real& r);

/// The gamma that E[K] = 1 asks for to first order in r^2.
inline Real balanced_gamma(std::int64_t d, const Real& s) {
  return 2 * s * (s - Real(d) / 2 + 1) / d;
}

/// The largest |E[K] - 1| over radii up to 0.9, for an exponent s with the best gamma.
double imbalance(std::int64_t d, const Real& s);

}  // namespace mobius::identities
