// Identities of conformal attention, checked at random points in numbers of 50 decimal digits.
//
// Boost.Multiprecision supplies the numbers (header-only, in Debian's libboost-dev), and Boost.Math
// their exact derivatives and integrals: elementary functions of 50 digits are long to write and
// easy to get wrong in the last ones, which are the ones that matter here.
#pragma once

#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/rng.h"

namespace mobius::identities {

using Real = boost::multiprecision::cpp_bin_float_50;

/// What an identity may deviate by: ten of the digits are left to the rounding of its terms.
constexpr double tolerance = 1e-40;

template <class T>
using Point = std::vector<T>;

/// A random case in d dimensions.
struct Case {
  std::int64_t d;
  Point<Real> a, x, y;  // in the ball
  Point<Real> z, w;     // on the sphere
  Real r;               // a radius in (0, 0.9)
  Real u;               // a cosine in (-1, 1)
  Real s, gamma;        // exponents, s in (0.5, 3.5), gamma in (0, 2)
};
Case random_case(std::int64_t d, std::uint64_t seed, std::uint64_t index);

struct Check {
  std::string name, statement;
  /// False for a statement that resembles an identity and is none: the check must notice.
  bool is_true = true;
  /// Whether it takes an integral, which costs as much as thousands of points.
  bool is_integral = false;
  /// The relative deviation of the two sides.
  std::function<Real(const Case&)> deviation;
};

/// A check over many cases.
struct Outcome {
  std::string name, statement;
  bool is_true;
  double deviation;  // the largest
  std::int64_t n_cases;

  /// Whether the outcome is as it should be: a true statement holds to the tolerance, and an untrue
  /// one is off by more than a thousandth.
  bool is_expected() const { return is_true ? deviation <= tolerance : deviation > 1e-3; }
};

struct Sample {
  std::vector<std::int64_t> dimensions;
  std::int64_t n_points = 16;    // cases a dimension
  std::int64_t n_integrals = 2;  // cases a dimension, of a check that takes an integral
  std::uint64_t seed = 1;
};
Outcome run_check(const Check& check, const Sample& sample);

/// Moebius maps of the ball, and what they do to the kernel.
std::vector<Check> moebius_checks();
/// Inverse temperature and radius.
std::vector<Check> temperature_checks();
/// The means of the kernel over the sphere.
std::vector<Check> mean_checks();
/// Laplacians, and degrees of spherical harmonics.
std::vector<Check> harmonic_checks();

/// |measured - expected| / |expected|.
inline Real relative(const Real& measured, const Real& expected) {
  return abs(measured - expected) / abs(expected);
}

template <class A, class B>
auto dot(const Point<A>& x, const Point<B>& y) {
  decltype(A() * B()) sum{};
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

template <class A, class B>
auto difference(const Point<A>& x, const Point<B>& y) {
  Point<decltype(A() - B())> result;
  for (std::size_t i = 0; i < x.size(); ++i) result.push_back(x[i] - y[i]);
  return result;
}

template <class T>
T squared_norm(const Point<T>& x) {
  return dot(x, x);
}

template <class A, class B>
auto squared_distance(const Point<A>& x, const Point<B>& y) {
  return squared_norm(difference(x, y));
}

inline Real distance(const Point<Real>& x, const Point<Real>& y) {
  return sqrt(squared_distance(x, y));
}

}  // namespace mobius::identities
