#include "train/studies/identities/moebius.h"

#include "train/studies/identities/kernel.h"

namespace mobius::identities {

namespace {

// The largest entry of D^T D / lambda^2 - I, where D is the derivative of T_a at z on the sphere.
// If it is 0, D is lambda times a rotation or reflection, and stretches the d - 1 dimensions of the
// sphere by lambda^(d-1).
Real distance_to_similarity(const Case& c) {
  std::vector<Point<Real>> columns;
  for (const Point<Jet<1>>& moved : along_axes<1>(c.z)) {
    Point<Real> column;
    for (const Jet<1>& image : moebius_map(c.a, moved)) column.push_back(image.derivative(1));
    columns.push_back(std::move(column));
  }
  const Real squared = pow(stretch(c.a, c.z), 2);
  Real largest = 0;
  for (std::size_t i = 0; i < columns.size(); ++i)
    for (std::size_t j = 0; j < columns.size(); ++j)
      largest =
          std::max(largest, Real(abs(dot(columns[i], columns[j]) / squared - (i == j ? 1 : 0))));
  return largest;
}

// The mean of f(zeta) = <c, zeta>^3 with c = (1, 2, 0, ...), given that zeta has cosine u with the
// first axis: only the second moment of the rest is left.
Real mean_of_cube(std::int64_t d, const Real& along, const Real& across_squared) {
  return along * along * along + 3 * along * 4 * across_squared / (d - 1);
}

// The mean over zeta of K(q, zeta) f(zeta) against that of f(T_-q(eta)) over eta, q on the first
// axis at radius r, f as above.
Real deviation_of_averages(const Case& c, const Exponents& e) {
  const Real weighted = sphere_mean(c.d, [&](const Real& u) {
    return Real(kernel(e, c.r, u) * mean_of_cube(c.d, u, 1 - u * u));
  });
  const Real mapped = sphere_mean(c.d, [&](const Real& u) {
    const Point<Real> eta = {u, sqrt(Real(1 - u * u))};  // T_-q keeps its plane
    const Point<Real> image = moebius_map(Point<Real>{-c.r, 0}, eta);
    return mean_of_cube(c.d, image[0], image[1] * image[1]);
  });
  return relative(weighted, mapped);
}

// K(T_a q, T_a zeta) against lambda_a(q)^of_query lambda_a(zeta)^of_key K(q, zeta).
Real deviation_of_covariance(const Case& c, const Exponents& e, const Real& of_query,
                             const Real& of_key) {
  const Real factor = pow(stretch(c.a, c.x), of_query) * pow(stretch(c.a, c.z), of_key);
  return relative(kernel(e, moebius_map(c.a, c.x), moebius_map(c.a, c.z)),
                  factor * kernel(e, c.x, c.z));
}

std::vector<Check> map_checks() {
  return {
      {"centre", "T_a(a) = 0", true, false,
       [](const Case& c) { return Real(sqrt(squared_norm(moebius_map(c.a, c.a)))); }},
      {"inverse", "T_-a(T_a(x)) = x", true, false,
       [](const Case& c) {
         return distance(moebius_map(negative(c.a), moebius_map(c.a, c.x)), c.x);
       }},
      {"ball to ball", "1 - |T_a(x)|^2 = lambda_a(x) (1 - |x|^2)", true, false,
       [](const Case& c) {
         return relative(1 - squared_norm(moebius_map(c.a, c.x)),
                         stretch(c.a, c.x) * (1 - squared_norm(c.x)));
       }},
      {"sphere to sphere", "|T_a(z)| = 1 if |z| = 1", true, false,
       [](const Case& c) { return Real(abs(squared_norm(moebius_map(c.a, c.z)) - 1)); }},
      {"distances in the ball", "|T_a(x) - T_a(y)|^2 = lambda_a(x) lambda_a(y) |x - y|^2", true,
       false,
       [](const Case& c) {
         return relative(squared_distance(moebius_map(c.a, c.x), moebius_map(c.a, c.y)),
                         stretch(c.a, c.x) * stretch(c.a, c.y) * squared_distance(c.x, c.y));
       }},
      {"boundary factor",
       "|T_a(z) - T_a(w)| = |z - w| sqrt(lambda_a(z) lambda_a(w)), "
       "lambda_a(z) = (1 - |a|^2) / |z - a|^2, on the sphere",
       true, false,
       [](const Case& c) {
         const auto lambda = [&](const Point<Real>& z) {
           return Real((1 - squared_norm(c.a)) / squared_distance(z, c.a));
         };
         return relative(distance(moebius_map(c.a, c.z), moebius_map(c.a, c.w)),
                         distance(c.z, c.w) * sqrt(Real(lambda(c.z) * lambda(c.w))));
       }},
      {"boundary factor, no root",
       "|T_a(z) - T_a(w)| = |z - w| lambda_a(z) lambda_a(w), on the sphere", false, false,
       [](const Case& c) {
         return relative(distance(moebius_map(c.a, c.z), moebius_map(c.a, c.w)),
                         distance(c.z, c.w) * stretch(c.a, c.z) * stretch(c.a, c.w));
       }},
  };
}

std::vector<Check> main_identity_checks() {
  return {
      {"conformality", "D T_a(z)^T D T_a(z) = lambda_a(z)^2 I, on the sphere", true, false,
       distance_to_similarity},
      {"main identity, kernel", "K_jacobian(a, z) = lambda_a(z)^(d-1), the Jacobian of T_a at z",
       true, false,
       [](const Case& c) {
         return relative(kernel(jacobian(c.d), c.a, c.z),
                         pow(stretch(c.a, c.z), static_cast<int>(c.d - 1)));
       }},
      {"main identity, averages", "E[K_jacobian(q, zeta) f(zeta)] = E[f(T_-q(eta))], f = <c, .>^3",
       true, true, [](const Case& c) { return deviation_of_averages(c, jacobian(c.d)); }},
      {"main identity, wrong exponents", "the same with s = gamma = d", false, true,
       [](const Case& c) {
         return deviation_of_averages(c, {"", Real(c.d), Real(c.d)});
       }},
  };
}

std::vector<Check> covariance_checks() {
  std::vector<Check> checks;
  const auto add = [&](const std::string& name, auto exponents) {
    checks.push_back({"covariance, " + name,
                      "K(T_a q, T_a z) = lambda_a(q)^(gamma-s) lambda_a(z)^(-s) K(q, z)", true,
                      false, [exponents](const Case& c) {
                        const Exponents e = exponents(c);
                        return deviation_of_covariance(c, e, e.gamma - e.s, -e.s);
                      }});
  };
  add("newton", [](const Case& c) { return newton(c.d); });
  add("poisson", [](const Case& c) { return poisson(c.d); });
  add("jacobian", [](const Case& c) { return jacobian(c.d); });
  add("custom", [](const Case& c) { return Exponents{"custom", c.s, c.gamma}; });
  checks.push_back(
      {"invariance of the weighted average",
       "K_jacobian(T_a q, T_a z) lambda_a(z)^(d-1) = K_jacobian(q, z)", true, false,
       [](const Case& c) { return deviation_of_covariance(c, jacobian(c.d), 0, Real(1 - c.d)); }});
  checks.push_back(
      {"invariance, poisson above two dimensions",
       "K_poisson(T_a q, T_a z) lambda_a(z)^(d/2) = K_poisson(q, z)", false, false,
       [](const Case& c) { return deviation_of_covariance(c, poisson(c.d), 0, -Real(c.d) / 2); }});
  return checks;
}

}  // namespace

std::vector<Check> moebius_checks() {
  std::vector<Check> checks = map_checks();
  for (std::vector<Check> more : {main_identity_checks(), covariance_checks()})
    checks.insert(checks.end(), more.begin(), more.end());
  return checks;
}

}  // namespace mobius::identities
