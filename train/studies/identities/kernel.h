// The kernel of conformal attention in 50 digits, its mean over the sphere, and its derivatives.
#pragma once

#include <array>
#include <boost/math/differentiation/autodiff.hpp>
#include <boost/math/quadrature/tanh_sinh.hpp>

#include "train/studies/identities/checks.h"

namespace mobius::identities {

/// A number with its first n derivatives.
template <int n>
using Jet = boost::math::differentiation::autodiff_fvar<Real, n>;

/// s and gamma of a weight (docs/MATH.md, section 1).
struct Exponents {
  std::string name;
  Real s, gamma;
};
inline Exponents newton(std::int64_t d) {
  if (d == 2) return {"newton", 1, 1};
  return {"newton", Real(d - 2) / 2, 0};
}
inline Exponents poisson(std::int64_t d) { return {"poisson", Real(d) / 2, 1}; }
inline Exponents jacobian(std::int64_t d) { return {"jacobian", Real(d - 1), Real(d - 1)}; }
inline std::array<Exponents, 3> balanced_exponents(std::int64_t d) {
  return {newton(d), poisson(d), jacobian(d)};
}

/// K(q, zeta) = (1 - |q|^2)^gamma / |q - zeta|^(2s), for a point q of Reals or Jets.
template <class T>
T kernel(const Exponents& e, const Point<T>& q, const Point<Real>& zeta) {
  return pow(T(1 - squared_norm(q)), e.gamma) * pow(T(squared_distance(q, zeta)), Real(-e.s));
}

/// K(r, u), where r or u or neither is a Jet.
template <class R, class U>
auto kernel(const Exponents& e, const R& r, const U& u) {
  using T = decltype(R() * U());
  return T(pow(T(1 - r * r), e.gamma) * pow(T(1 + r * r - 2 * r * u), Real(-e.s)));
}

/// Returns the mean of f(u) over the uniform sphere in d dimensions, where u is the cosine of the
/// angle to a fixed direction.
template <class F>
Real sphere_mean(std::int64_t d, const F& f) {
  boost::math::quadrature::tanh_sinh<Real> integrator;
  const Real pi = boost::math::constants::pi<Real>();
  const auto weight = [d](const Real& angle) { return pow(sin(angle), static_cast<int>(d - 2)); };
  const Real whole = integrator.integrate(weight, Real(0), pi);
  const auto part = [&](const Real& angle) { return Real(weight(angle) * f(Real(cos(angle)))); };
  return integrator.integrate(part, Real(0), pi) / whole;
}

/// The d points x + t e_i as Jets in t.
template <int n>
std::vector<Point<Jet<n>>> along_axes(const Point<Real>& x) {
  std::vector<Point<Jet<n>>> moved;
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    Point<Jet<n>> point(x.begin(), x.end());
    point[axis] = boost::math::differentiation::make_fvar<Real, n>(x[axis]);
    moved.push_back(std::move(point));
  }
  return moved;
}

}  // namespace mobius::identities
