// What the singular values of a matrix say about it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace mobius {

/// Singular values, descending.
struct Spectrum {
  std::vector<double> values;

  /// exp of the entropy of the values divided by their sum (Roy and Vetterli 2007): n if all are
  /// equal, 1 if only one is not 0.
  double effective_rank() const;
  /// |A|_F^2 / sigma_1^2.
  double stable_rank() const;
  /// How many values exceed `share` of the largest.
  std::int64_t rank(double share) const;
  /// |A - A_m|_F / |A|_F of the best approximation A_m of rank m (Eckart and Young 1936): no m
  /// features of queries and keys, whatever they are, come closer.
  double rest(std::int64_t m) const;
};

/// Takes a real matrix, with any leading dimensions of size 1. Throws Error if it is all 0 or not
/// finite.
Spectrum spectrum_of(const Tensor& matrix);

/// Divides each row of [..., n_q, n_k] by its sum, where that is not 0.
Tensor with_rows_of_sum_one(const Tensor& weights);

}  // namespace mobius
