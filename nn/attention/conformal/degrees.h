// The conformal kernel by degrees: how much of it any far field of m features can reach
// (docs/MATH.md, section 2).
//
// The kernel depends on u = <qhat, zeta> alone, so spherical harmonics diagonalise it. With
// lambda = (d-2)/2, Gegenbauer polynomials C_l and N_l harmonics of degree l on the sphere in d
// dimensions,
//
//   K(r, u) / E[K] = sum_l mu_l(r) Z_l(u),   Z_l = (l + lambda) / lambda C_l(u),   Z_l(1) = N_l,
//   mu_l(r) = (s)_l / (lambda + 1)_l  r^l  F_l(r^2) / F_0(r^2),
//   F_l(x) = 2F1(s + l, s - lambda; l + lambda + 1; x),
//
// because (1 - 2 r u + r^2)^(-s) = sum_l (s)_l / (lambda)_l r^l F_l(r^2) C_l(u) (Cohl 2013,
// "On a generalization of the generating function for Gegenbauer polynomials", theorem 2.1). F_l is
// 1 for newton, and F_l = F_0 for poisson.
//
// Legend: d dimension, r radius of a query, u cosine, l degree, m features.
#pragma once

#include <vector>

#include "nn/attention/conformal/jspace.h"

namespace mobius {

/// Returns mu_l(r) for 0 <= r < 1 and l >= 0: the eigenvalue of degree l of the unit-mean kernel.
/// It is 1 for l = 0, and falls with l unless the kernel is sharper than newton.
double degree_eigenvalue(const ConformalKernel& kernel, double r, std::int64_t l);
/// mu_l(r) elementwise, differentiable, for l of 1 or 2.
Variable degree_eigenvalue(const ConformalKernel& kernel, const Variable& r, std::int64_t l);

/// Returns N_l: the dimension of the harmonics of degree l in d >= 2 dimensions.
double harmonics_of_degree(std::int64_t d, std::int64_t l);

/// Returns the share of degree l in the mean square of the kernel over the uniform sphere,
/// mu_l^2 N_l / sum_k mu_k^2 N_k, for l = 0 ... n_degrees - 1. The sum runs over all degrees that
/// double precision can tell.
std::vector<double> degree_shares(const ConformalKernel& kernel, double r, std::int64_t n_degrees);

/// Returns the least root mean square error, relative to that of the kernel, of any approximation
/// sum_a f_a(query) g_a(key) with m terms, for keys and query directions uniform on the sphere:
/// the largest m eigenvalues are kept, and the rest is lost (Eckart and Young 1936).
double least_error(const ConformalKernel& kernel, double r, std::int64_t m);

}  // namespace mobius
