#include "core/hyp2f1.h"

#include <algorithm>

#include "core/error.h"

namespace mobius {

LogHyp2f1Tables::LogHyp2f1Tables(double a, double b, double c, double largest)
    : function_{0, a * b / c, largest, false, {}, {}} {
  const bool finite = std::isfinite(a + b + c);
  const bool plain = finite && c > 0 && a >= 0 && b >= 0 && a + b >= c;
  const bool transformed = finite && c > 0 && c - a >= 0 && c - b >= 0 && a + b <= c;
  if (!plain && !transformed)
    throw Error("log_hyp2f1: a = {}, b = {}, c = {}: no positive form", a, b, c);
  if (plain) {
    function_.function = expand(a, b, c, largest);
  } else {
    function_.is_transformed = true;
    function_.exponent = c - a - b;
    function_.function = expand(c - a, c - b, c, largest);
    function_.derivative = expand(c - a, c - b, c + 1, largest);
  }
}

LogHyp2f1 LogHyp2f1Tables::reading(const Hyp2f1Expansion* expansions,
                                   const double* coefficients) const {
  LogHyp2f1 f = function_;
  f.function.expansions = expansions;
  f.derivative.expansions = expansions + f.function.n_expansions;
  f.function.coefficients = f.derivative.coefficients = coefficients;
  return f;
}

PositiveHyp2f1 LogHyp2f1Tables::expand(double a, double b, double c, double largest) {
  PositiveHyp2f1 f{a, b, c, 0, nullptr, nullptr};
  // F grows like (1-x)^-(a+b-c) towards 1; this reach keeps it in range within an expansion.
  const double reach = std::min(0.5, 200 / (a + b + c + 1));
  double gap = 1 - PositiveHyp2f1::series_end;
  if (1 - largest >= gap) return f;
  ValueAndSlope at_centre = f.log_of_series(PositiveHyp2f1::series_end);
  while (true) {
    expansions_.push_back(expand_at(f, gap, reach, at_centre));
    ++f.n_expansions;
    gap *= 1 - reach;
    if (1 - largest >= gap) return f;
    PositiveHyp2f1 so_far = f;
    so_far.coefficients = coefficients_.data();
    at_centre = so_far.log_of_expansion(expansions_.back(), gap);
  }
}

Hyp2f1Expansion LogHyp2f1Tables::expand_at(const PositiveHyp2f1& f, double gap, double reach,
                                           ValueAndSlope log_at_centre) {
  const auto begin = static_cast<std::int64_t>(coefficients_.size());
  const double x = 1 - gap, h = gap * reach;
  const double p0 = x * gap, p1 = 1 - 2 * x, q0 = f.c - (f.a + f.b + 1) * x;
  double f0 = 1, f1 = log_at_centre.slope * h;
  coefficients_.insert(coefficients_.end(), {f0, f1});
  double sum = f0 + f1;
  for (double n = 0;; ++n) {
    const double next = ((n + f.a) * (n + f.b) * h * h * f0 - (n + 1) * (p1 * n + q0) * h * f1) /
                        (p0 * (n + 2) * (n + 1));
    coefficients_.push_back(next);
    sum += next;
    if (n >= f.a + f.b && std::abs(next) <= PositiveHyp2f1::negligible * sum) break;
    f0 = f1;
    f1 = next;
  }
  return {gap, h, log_at_centre.value, begin, static_cast<std::int64_t>(coefficients_.size())};
}

}  // namespace mobius
