// The logarithm of Gauss' hypergeometric function on 0 <= x < 1.
#pragma once

#include <memory>
#include <vector>

namespace mobius {

struct ValueAndSlope {
  double value;
  double slope;
};

/// log F(a, b; c; x) for a, b >= 0 and c > 0. All terms of all sums are positive: nothing cancels.
/// F may exceed the range of double.
///
/// Sums the power series up to x = 0.9. Beyond, continues F by Taylor expansions of the solution of
/// x (1-x) F'' + (c - (a+b+1) x) F' - a b F = 0; each covers a fixed part of the remaining distance
/// to the singular point x = 1. The coefficients serve all x, so one object should serve many
/// calls.
class PositiveHyp2f1 {
 public:
  /// `largest` < 1 bounds the arguments.
  PositiveHyp2f1(double a, double b, double c, double largest);

  /// Returns log F and its derivative.
  ValueAndSlope log_at(double x) const;

 private:
  // sum_n coefficients[n] u^n = F / e^log_scale, where u = (gap - (1 - x)) / step is in [0, 1].
  struct Expansion {
    double gap;  // 1 - x at the centre
    double step;
    double log_scale;
    std::vector<double> coefficients;
  };

  ValueAndSlope log_of_series(double x) const;
  static ValueAndSlope log_of_expansion(const Expansion& expansion, double one_minus_x);
  Expansion expand(double gap, ValueAndSlope log_at_centre) const;

  double a_, b_, c_;
  double reach_;  // the part of the gap that one expansion covers
  std::vector<Expansion> expansions_;
};

/// log F(a, b; c; x) as a sum of positive terms: of F itself or of Euler's transformation
/// F = (1-x)^(c-a-b) F(c-a, c-b; c; x).
class LogHyp2f1 {
 public:
  /// `largest` < 1 bounds the arguments. Throws Error if neither form has positive terms, that is
  /// unless a, b >= 0 and a + b >= c, or c - a, c - b >= 0 and a + b <= c.
  LogHyp2f1(double a, double b, double c, double largest);

  /// Returns log F and its derivative; NaN unless 0 <= x <= largest.
  ValueAndSlope operator()(double x) const;

 private:
  double exponent_;  // c - a - b with Euler's transformation, else 0
  double slope_;     // a b / c: F' = slope_ F(a+1, b+1; c+1; x)
  double largest_;
  std::unique_ptr<PositiveHyp2f1> function_;
  std::unique_ptr<PositiveHyp2f1> derivative_;  // (1-x)^(1-exponent) F' / slope_, with Euler's
};

}  // namespace mobius
