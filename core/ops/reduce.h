// Sums, maxima and running sums.
#pragma once

#include <span>
#include <vector>

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

// Operands are real. Empty `dims` mean all dimensions.
Tensor sum(const Tensor& x, const std::vector<int>& dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const std::vector<int>& dims = {}, bool keepdim = false);
Tensor max(const Tensor& x, int dim, bool keepdim = false);
/// Returns i64 indices along the last dimension; among equal elements, the smallest index.
Tensor argmax(const Tensor& x);
/// In double, read back from the device.
double sum_of_squares(const Tensor& x);
/// sums[i] (f64) = the sum of squares of xs[i], which are real and dense; 0 for an undefined one.
void sum_of_squares(std::span<const Tensor> xs, const Tensor& sums);
Tensor cumsum(const Tensor& x, int dim, bool reverse = false);
/// Sums x down to `shape`: the adjoint of broadcasting `shape` to x's.
Tensor sum_to(const Tensor& x, const Shape& shape);

class ReduceKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "reduce";

  /// x is seen as [outer, reduced, inner]; out as [outer, inner]. f32 sums in double for inner
  /// == 1.
  virtual void sum(const Tensor& x, std::int64_t outer, std::int64_t reduced, std::int64_t inner,
                   const Tensor& out) = 0;
  virtual void max(const Tensor& x, std::int64_t outer, std::int64_t reduced, std::int64_t inner,
                   const Tensor& out) = 0;
  /// Index (i64) of the first largest element of each row of [R, D].
  virtual void argmax(const Tensor& x, const Tensor& out) = 0;
  /// sums[i] (f64) = the sum of squares of xs[i], accumulated in double; 0 for an undefined one.
  virtual void sum_of_squares(std::span<const Tensor> xs, const Tensor& sums) = 0;
  /// Running sum along the middle axis of [outer, n, inner]; from the end when `reverse`.
  virtual void cumsum(const Tensor& x, std::int64_t outer, std::int64_t n, std::int64_t inner,
                      bool reverse, const Tensor& out) = 0;
};

}  // namespace mobius
