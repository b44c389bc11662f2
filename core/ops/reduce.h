// Sums, maxima and running sums.
#pragma once

#include <vector>

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

// Of real tensors. `dims` empty means all dimensions.
Tensor sum(const Tensor& x, const std::vector<int>& dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const std::vector<int>& dims = {}, bool keepdim = false);
Tensor max(const Tensor& x, int dim, bool keepdim = false);
/// Over the last dimension, i64; ties: the smaller index.
Tensor argmax(const Tensor& x);
double sum_of_squares(const Tensor& x);
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
  /// Sum of squares of all elements, accumulated in double.
  virtual double sum_of_squares(const Tensor& x) = 0;
  /// Running sum along the middle axis of [outer, n, inner]; from the end when `reverse`.
  virtual void cumsum(const Tensor& x, std::int64_t outer, std::int64_t n, std::int64_t inner,
                      bool reverse, const Tensor& out) = 0;
};

}  // namespace mobius
