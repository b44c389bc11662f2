// The far field that keeps the lowest degrees of the kernel exactly (docs/MATH.md, section 2).
#pragma once

#include "nn/attention/conformal/far_field.h"

namespace mobius {

/// Returns x_a x_b for a <= b, [..., n, d (d + 1) / 2], of x[..., n, d]; off the diagonal times
/// `off_diagonal`. With factors of 1 for keys and 2 for queries, products of these are squares of
/// products.
Variable pair_products(const Variable& x, double off_diagonal);

/// With mu_l the eigenvalue of degree l (nn/attention/conformal/degrees.h), the kernel of unit mean
/// is
///
///   1 + mu_1 d u + mu_2 (d + 2)/2 (d u^2 - 1) + ...
///
/// and the terms up to a degree are products of the features
///
///   degree 0   1                                 the mean of the values
///   degree 1   zeta                              d more
///   degree 2   zeta_a zeta_b for a <= b          d (d + 1) / 2 more
///
/// so that moments hold sum_j v_j, sum_j zeta_j v_j^T and sum_j zeta_j zeta_j^T v_j. For keys
/// uniform on the sphere, no other features of their number come closer to the kernel. The radius
/// of a query is not capped.
class DegreeBasis final : public FarField {
 public:
  /// Throws Error unless `degree` is 0, 1 or 2.
  DegreeBasis(const ConformalKernel& kernel, std::int64_t degree);

  std::int64_t n_features() const override;
  Variable query_features(const BallPoints& points) const override;
  Variable key_features(const Variable& zeta) const override;

 private:
  ConformalKernel kernel_;
  std::int64_t degree_;
};

}  // namespace mobius
