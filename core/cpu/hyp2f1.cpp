#include "core/cpu/hyp2f1.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace mobius {
namespace {

constexpr double series_end = 0.9;
constexpr double negligible = 1e-18;

}  // namespace

PositiveHyp2f1::PositiveHyp2f1(double a, double b, double c, double largest)
    : a_(a), b_(b), c_(c), reach_(std::min(0.5, 200 / (a + b + c + 1))) {
  // F grows like (1-x)^-(a+b-c) towards 1; this reach keeps it in range within an expansion.
  double gap = 1 - series_end;
  if (1 - largest >= gap) return;
  ValueAndSlope at_centre = log_of_series(series_end);
  while (true) {
    expansions_.push_back(expand(gap, at_centre));
    gap *= 1 - reach_;
    if (1 - largest >= gap) return;
    at_centre = log_of_expansion(expansions_.back(), gap);
  }
}

ValueAndSlope PositiveHyp2f1::log_at(double x) const {
  const double one_minus_x = 1 - x;
  if (expansions_.empty() || one_minus_x >= expansions_.front().gap) return log_of_series(x);
  // Finds the last expansion whose centre is not beyond x.
  const auto next = std::partition_point(expansions_.begin(), expansions_.end(),
                                         [&](const Expansion& e) { return e.gap > one_minus_x; });
  return log_of_expansion(*(next - 1), one_minus_x);
}

ValueAndSlope PositiveHyp2f1::log_of_series(double x) const {
  if (x == 0) return {0, a_ * b_ / c_};
  constexpr double large = 1e250;
  const double log_large = std::log(large);
  double first = 1, term = 1, rest = 0, weighted = 0, log_scale = 0;  // F = first + rest
  for (double n = 0;; ++n) {
    term *= (a_ + n) * (b_ + n) / ((c_ + n) * (n + 1)) * x;
    rest += term;
    weighted += (n + 1) * term;
    if (rest > large) {
      for (double* scaled : {&first, &term, &rest, &weighted}) *scaled /= large;
      log_scale += log_large;
    }
    // The terms decrease from n = a + b on.
    if (n >= a_ + b_ && term <= negligible * (first + rest)) break;
  }
  const double value = log_scale == 0 ? std::log1p(rest) : log_scale + std::log(first + rest);
  return {value, weighted / x / (first + rest)};
}

PositiveHyp2f1::Expansion PositiveHyp2f1::expand(double gap, ValueAndSlope log_at_centre) const {
  const double x = 1 - gap, h = gap * reach_;
  const double p0 = x * gap, p1 = 1 - 2 * x, q0 = c_ - (a_ + b_ + 1) * x;
  Expansion e{gap, h, log_at_centre.value, {1, log_at_centre.slope * h}};
  double sum = e.coefficients[0] + e.coefficients[1];
  for (double n = 0;; ++n) {
    const double f0 = e.coefficients.end()[-2], f1 = e.coefficients.end()[-1];
    const double next = ((n + a_) * (n + b_) * h * h * f0 - (n + 1) * (p1 * n + q0) * h * f1) /
                        (p0 * (n + 2) * (n + 1));
    e.coefficients.push_back(next);
    sum += next;
    if (n >= a_ + b_ && std::abs(next) <= negligible * sum) return e;
  }
}

ValueAndSlope PositiveHyp2f1::log_of_expansion(const Expansion& e, double one_minus_x) {
  const double u = (e.gap - one_minus_x) / e.step;
  double value = 0, slope = 0;
  for (auto c = e.coefficients.rbegin(); c != e.coefficients.rend(); ++c) {
    slope = slope * u + value;
    value = value * u + *c;
  }
  return {e.log_scale + std::log(value), slope / e.step / value};
}

LogHyp2f1::LogHyp2f1(double a, double b, double c, double largest)
    : exponent_(0), slope_(a * b / c), largest_(largest) {
  const bool finite = std::isfinite(a + b + c);
  const bool plain = finite && c > 0 && a >= 0 && b >= 0 && a + b >= c;
  const bool transformed = finite && c > 0 && c - a >= 0 && c - b >= 0 && a + b <= c;
  if (!plain && !transformed)
    throw Error("log_hyp2f1: a = {}, b = {}, c = {}: no positive form", a, b, c);
  if (plain) {
    function_ = std::make_unique<PositiveHyp2f1>(a, b, c, largest);
  } else {
    exponent_ = c - a - b;
    function_ = std::make_unique<PositiveHyp2f1>(c - a, c - b, c, largest);
    derivative_ = std::make_unique<PositiveHyp2f1>(c - a, c - b, c + 1, largest);
  }
}

ValueAndSlope LogHyp2f1::operator()(double x) const {
  if (!(x >= 0 && x <= largest_)) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    return {nan, nan};
  }
  const ValueAndSlope f = function_->log_at(x);
  if (!derivative_) return f;
  // The sum -exponent / (1-x) + f.slope would cancel near 1.
  const double ratio = std::exp(derivative_->log_at(x).value - f.value);
  return {exponent_ * std::log1p(-x) + f.value, slope_ * ratio / (1 - x)};
}

}  // namespace mobius
