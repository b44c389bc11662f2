#include "train/studies/identities/checks.h"

#include <algorithm>

namespace mobius::identities {

namespace {

Point<Real> random_on_sphere(Rng& rng, std::int64_t d) {
  Point<Real> point;
  for (std::int64_t i = 0; i < d; ++i) point.emplace_back(rng.normal());
  const Real length = sqrt(squared_norm(point));
  for (Real& x : point) x /= length;
  return point;
}

Point<Real> random_in_ball(Rng& rng, std::int64_t d) {
  Point<Real> point = random_on_sphere(rng, d);
  const Real radius = 0.05 + 0.85 * rng.uniform();
  for (Real& x : point) x *= radius;
  return point;
}

}  // namespace

Case random_case(std::int64_t d, std::uint64_t seed, std::uint64_t index) {
  Rng rng({seed, stream_id("identities", static_cast<std::uint64_t>(d), index)});
  Case c;
  c.d = d;
  c.a = random_in_ball(rng, d);
  c.x = random_in_ball(rng, d);
  c.y = random_in_ball(rng, d);
  c.z = random_on_sphere(rng, d);
  c.w = random_on_sphere(rng, d);
  c.r = 0.05 + 0.85 * rng.uniform();
  c.u = -0.99 + 1.98 * rng.uniform();
  c.s = 0.5 + 3 * rng.uniform();
  c.gamma = 0.1 + 1.9 * rng.uniform();
  return c;
}

Outcome run_check(const Check& check, const Sample& sample) {
  const std::int64_t n = check.is_integral ? sample.n_integrals : sample.n_points;
  Real largest = 0;
  for (const std::int64_t d : sample.dimensions)
    for (std::int64_t i = 0; i < n; ++i)
      largest = std::max(
          largest, check.deviation(random_case(d, sample.seed, static_cast<std::uint64_t>(i))));
  return {check.name, check.statement, check.is_true, static_cast<double>(largest),
          n * static_cast<std::int64_t>(sample.dimensions.size())};
}

}  // namespace mobius::identities
