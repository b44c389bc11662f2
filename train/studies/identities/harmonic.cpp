#include "train/studies/identities/kernel.h"

namespace mobius::identities {

namespace {

// Sums over the axes of the ball, of f at x: second derivatives, their absolute values, and
// coordinates times first derivatives.
struct Derivatives {
  Real laplacian = 0, scale = 0, radial = 0;
};

Derivatives derivatives(const Exponents& e, const Point<Real>& x, const Point<Real>& zeta) {
  Derivatives sums;
  const std::vector<Point<Jet<2>>> moved = along_axes<2>(x);
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    const Jet<2> f = kernel(e, moved[axis], zeta);
    sums.laplacian += f.derivative(2);
    sums.scale += abs(f.derivative(2));
    sums.radial += x[axis] * f.derivative(1);
  }
  return sums;
}

Real relative_laplacian(const Case& c, const Exponents& e) {
  const Derivatives sums = derivatives(e, c.x, c.z);
  return abs(sums.laplacian) / sums.scale;
}

// The Laplacian of the ball's hyperbolic metric of ((1 - |x|^2) / |x - z|^2)^t, less the multiple
// t (t - d + 1) of this function.
Real hyperbolic_deviation(const Case& c, const Real& t) {
  const Exponents e{"", t, t};
  const Derivatives sums = derivatives(e, c.x, c.z);
  const Real room = 1 - squared_norm(c.x);
  const Real first = room * room / 4 * sums.laplacian, second = room / 2 * (c.d - 2) * sums.radial;
  const Real expected = t * (t - c.d + 1) * kernel(e, c.x, c.z);
  return abs(first + second - expected) / (room * room / 4 * sums.scale + abs(second));
}

// C_l(u) / C_l(1), the zonal harmonic of degree l in d dimensions with value 1 at u = 1.
Real zonal(std::int64_t d, int l, const Real& u) {
  Real before = 1, now = u;
  for (int i = 1; i < l; ++i) {
    const Real next = ((2 * i + d - 2) * u * now - i * before) / (i + d - 2);
    before = now;
    now = next;
  }
  return l == 0 ? before : now;
}

// Deviation of E[K(r, u) zonal_l(u)] from factor(l) r^l, over degrees 1 to 3.
template <class F>
Real degree_deviation(const Case& c, const Exponents& e, const F& factor) {
  Real largest = 0;
  for (int l = 1; l <= 3; ++l) {
    const Real mean =
        sphere_mean(c.d, [&](const Real& u) { return Real(kernel(e, c.r, u) * zonal(c.d, l, u)); });
    largest = std::max(largest, relative(mean, factor(l) * pow(c.r, l)));
  }
  return largest;
}

std::vector<Check> laplacian_checks() {
  return {
      {"newton is harmonic", "Laplacian of |x - z|^(2-d) = 0", true, false,
       [](const Case& c) { return relative_laplacian(c, newton(c.d)); }},
      {"poisson is harmonic", "Laplacian of (1 - |x|^2) / |x - z|^d = 0", true, false,
       [](const Case& c) { return relative_laplacian(c, poisson(c.d)); }},
      {"jacobian is harmonic in the hyperbolic metric",
       "((1 - |x|^2) Laplacian + 2 (d-2) x . grad) K_jacobian = 0", true, false,
       [](const Case& c) { return hyperbolic_deviation(c, Real(c.d - 1)); }},
      {"eigenfunctions of the hyperbolic Laplacian",
       "s = gamma = t gives the eigenvalue t (t - d + 1)", true, false,
       [](const Case& c) { return hyperbolic_deviation(c, c.s); }},
      {"harmonic, exponent of newton + 0.1", "Laplacian of |x - z|^(1.8-d) = 0", false, false,
       [](const Case& c) {
         return relative_laplacian(c, {"", Real(c.d - 2) / 2 + Real(0.1), 0});
       }},
      {"jacobian is harmonic in the flat metric", "Laplacian of K_jacobian = 0", false, false,
       [](const Case& c) { return relative_laplacian(c, jacobian(c.d)); }},
  };
}

std::vector<Check> degree_checks() {
  return {
      {"degrees of poisson", "E[K_poisson Y_l] = r^l Y_l: it keeps boundary values as r -> 1", true,
       true,
       [](const Case& c) {
         return degree_deviation(c, poisson(c.d), [](int) { return Real(1); });
       }},
      {"degrees of newton", "E[K_newton Y_l] = r^l lambda / (l + lambda) Y_l, lambda = (d-2)/2 > 0",
       true, true,
       [](const Case& c) {
         const Real lambda = Real(c.d - 2) / 2;
         return degree_deviation(c, newton(c.d), [&](int l) {
           return c.d == 2 ? Real(1) : Real(lambda / (l + lambda));
         });
       }},
  };
}

}  // namespace

std::vector<Check> harmonic_checks() {
  std::vector<Check> checks = laplacian_checks();
  for (Check& check : degree_checks()) checks.push_back(std::move(check));
  return checks;
}

}  // namespace mobius::identities
