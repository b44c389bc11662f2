// The logarithm of Gauss' hypergeometric function on 0 <= x < 1: tables, made on the host, and
// their evaluation, in the kernels of every device.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace mobius {

struct ValueAndSlope {
  double value;
  double slope;
};

/// sum_n coefficients[n] u^n = F / e^log_scale, where u = (gap - (1 - x)) / step is in [0, 1].
struct Hyp2f1Expansion {
  double gap;  // 1 - x at the centre
  double step;
  double log_scale;
  std::int64_t begin, end;  // of its coefficients
};

/// log F(a, b; c; x) for a, b >= 0 and c > 0. All terms of all sums are positive: nothing cancels.
/// F may exceed the range of double.
///
/// Sums the power series up to x = 0.9. Beyond, continues F by Taylor expansions of the solution of
/// x (1-x) F'' + (c - (a+b+1) x) F' - a b F = 0; each covers a fixed part of the remaining distance
/// to the singular point x = 1.
struct PositiveHyp2f1 {
  static constexpr double series_end = 0.9;
  static constexpr double negligible = 1e-18;

  double a, b, c;
  std::int64_t n_expansions;
  const Hyp2f1Expansion* expansions;  // in the order of their centres
  const double* coefficients;         // of all expansions

  /// Returns log F and its derivative.
  constexpr ValueAndSlope log_at(double x) const {
    const double one_minus_x = 1 - x;
    if (n_expansions == 0 || one_minus_x >= expansions[0].gap) return log_of_series(x);
    // Finds the last expansion whose centre is not beyond x, among [first, end).
    std::int64_t first = 0, end = n_expansions;
    while (end - first > 1) {
      const std::int64_t middle = (first + end) / 2;
      (expansions[middle].gap > one_minus_x ? first : end) = middle;
    }
    return log_of_expansion(expansions[first], one_minus_x);
  }

  constexpr ValueAndSlope log_of_series(double x) const {
    if (x == 0) return {0, a * b / c};
    constexpr double large = 1e250;
    constexpr double log_large = 575.64627324851142100449786367109;
    double first = 1, term = 1, rest = 0, weighted = 0, log_scale = 0;  // F = first + rest
    for (double n = 0;; ++n) {
      term *= (a + n) * (b + n) / ((c + n) * (n + 1)) * x;
      rest += term;
      weighted += (n + 1) * term;
      if (rest > large) {
        for (double* scaled : {&first, &term, &rest, &weighted}) *scaled /= large;
        log_scale += log_large;
      }
      // The terms decrease from n = a + b on.
      if (n >= a + b && term <= negligible * (first + rest)) break;
    }
    const double value = log_scale == 0 ? std::log1p(rest) : log_scale + std::log(first + rest);
    return {value, weighted / x / (first + rest)};
  }

  constexpr ValueAndSlope log_of_expansion(const Hyp2f1Expansion& e, double one_minus_x) const {
    const double u = (e.gap - one_minus_x) / e.step;
    double value = 0, slope = 0;
    for (std::int64_t i = e.end; i-- > e.begin;) {
      slope = slope * u + value;
      value = value * u + coefficients[i];
    }
    return {e.log_scale + std::log(value), slope / e.step / value};
  }
};

/// log F(a, b; c; x) as a sum of positive terms: of F itself or of Euler's transformation
/// F = (1-x)^(c-a-b) F(c-a, c-b; c; x). Reads the tables that it was made of.
struct LogHyp2f1 {
  double exponent;  // c - a - b with Euler's transformation, else 0
  double slope;     // a b / c: F' = slope F(a+1, b+1; c+1; x)
  double largest;
  bool is_transformed;
  PositiveHyp2f1 function;
  PositiveHyp2f1 derivative;  // (1-x)^(1-exponent) F' / slope, with Euler's

  /// Returns log F and its derivative; NaN unless 0 <= x <= largest.
  constexpr ValueAndSlope operator()(double x) const {
    if (!(x >= 0 && x <= largest)) {
      constexpr double nan = std::numeric_limits<double>::quiet_NaN();
      return {nan, nan};
    }
    const ValueAndSlope f = function.log_at(x);
    if (!is_transformed) return f;
    // The sum -exponent / (1-x) + f.slope would cancel near 1.
    const double ratio = std::exp(derivative.log_at(x).value - f.value);
    return {exponent * std::log1p(-x) + f.value, slope * ratio / (1 - x)};
  }
};

/// The expansions of one function, which serve all x up to `largest`: one object should serve many
/// calls.
class LogHyp2f1Tables {
 public:
  /// `largest` < 1 bounds the arguments. Throws Error if neither form has positive terms, that is
  /// unless a, b >= 0 and a + b >= c, or c - a, c - b >= 0 and a + b <= c.
  LogHyp2f1Tables(double a, double b, double c, double largest);

  const std::vector<Hyp2f1Expansion>& expansions() const { return expansions_; }
  const std::vector<double>& coefficients() const { return coefficients_; }
  /// The function, reading copies of expansions() and coefficients().
  LogHyp2f1 reading(const Hyp2f1Expansion* expansions, const double* coefficients) const;
  /// The function, reading this object.
  LogHyp2f1 function() const { return reading(expansions_.data(), coefficients_.data()); }

 private:
  PositiveHyp2f1 expand(double a, double b, double c, double largest);
  Hyp2f1Expansion expand_at(const PositiveHyp2f1& f, double gap, double reach,
                            ValueAndSlope log_at_centre);

  std::vector<Hyp2f1Expansion> expansions_;  // of the function, then of the derivative
  std::vector<double> coefficients_;
  LogHyp2f1 function_;  // without its tables
};

}  // namespace mobius
