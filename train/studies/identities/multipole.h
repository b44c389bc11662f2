// How many degrees the kernel of newton takes.
//
//   (1 + r^2 - 2 r u)^-lambda = sum_l r^l C_l(u),   lambda = (d - 2) / 2,   C_l of Gegenbauer
//
// Every |C_l(u)| is at most C_l(1) = (2 lambda)_l / l!, so the error of the first L degrees is
// largest at u = 1, where it is the sum of the other terms t_l = r^l (2 lambda)_l / l!. Their ratio
// t_(l+1) / t_l = r (2 lambda + l) / (l + 1) is above 1 at first: they grow up to the hump at
// floor(r (2 lambda - 1) / (1 - r)), and only then fall, at a rate that tends to r. As shares of
// the sum (1 - r)^(-2 lambda) they are a negative binomial distribution, with mean
// 2 lambda r / (1 - r).
#pragma once

#include "train/studies/identities/checks.h"

namespace mobius::identities {

struct Multipole {
  std::int64_t d = 0;
  double r = 0;
  std::int64_t predicted_hump = 0;
  std::int64_t hump = 0;  // the degree of the largest term
  /// Terms at u = 1, and the largest error over u of the degrees below l, both as shares of K(r,
  /// 1).
  std::vector<double> terms = {}, errors = {};
  /// Whether the error was largest at u = 1 for every number of degrees.
  bool is_worst_at_one = true;
  /// The error of all degrees in f64 at u = -1, relative to K(r, -1): what alternating terms as
  /// large as K(r, 1) leave of a small number.
  double f64_error = 0;

  /// The least number of degrees with an error of at most `share`.
  std::int64_t degrees_for(double share) const;
};

/// Takes degrees until the error is below 10^-12. Throws Error unless d > 2 and 0 < r < 1.
Multipole multipole(std::int64_t d, double r);

/// The ratio of the errors after l + 1 and l degrees, from the sums of the terms.
double falling_rate(std::int64_t d, double r, std::int64_t l);

}  // namespace mobius::identities
