// Moebius maps of the unit ball (Ahlfors 1981, "Moebius transformations in several dimensions").
#pragma once

#include "train/studies/identities/checks.h"

namespace mobius::identities {

/// lambda_a(x) = (1 - |a|^2) / (1 - 2 <a, x> + |a|^2 |x|^2): how much T_a stretches lengths at x.
/// On the sphere the denominator is |x - a|^2.
template <class T>
T stretch(const Point<Real>& a, const Point<T>& x) {
  const Real aa = squared_norm(a);
  return (1 - aa) / T(1 - 2 * dot(a, x) + aa * squared_norm(x));
}

/// T_a(x) = ((1 - |a|^2) (x - a) - |x - a|^2 a) / (1 - 2 <a, x> + |a|^2 |x|^2).
template <class T>
Point<T> moebius_map(const Point<Real>& a, const Point<T>& x) {
  const Real aa = squared_norm(a);
  const T xx = squared_distance(x, a);
  const T denominator = 1 - 2 * dot(a, x) + aa * squared_norm(x);
  Point<T> image;
  for (std::size_t i = 0; i < a.size(); ++i)
    image.push_back(T(((1 - aa) * (x[i] - a[i]) - xx * a[i]) / denominator));
  return image;
}

inline Point<Real> negative(Point<Real> a) {
  for (Real& x : a) x = -x;
  return a;
}

}  // namespace mobius::identities
