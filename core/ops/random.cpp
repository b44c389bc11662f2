#include "core/ops/random.h"

#include <cmath>

#include "core/ops/checks.h"

namespace mobius {

Tensor random_uniform(Shape shape, double low, double high, RngKey key, DType dtype,
                      Device device) {
  if (!(low <= high) || !std::isfinite(high - low))
    throw Error("random_uniform: [{}, {}) is no range", low, high);
  Tensor out = Tensor::empty(std::move(shape), dtype, device);
  require_real("random_uniform", out);
  kernels(out, &Backend::random)->random_uniform(key, low, high, out);
  return out;
}

Tensor random_normal(Shape shape, double mean, double stddev, RngKey key, DType dtype,
                     Device device) {
  if (!std::isfinite(mean) || !(stddev >= 0) || !std::isfinite(stddev))
    throw Error("random_normal: a mean of {} and a standard deviation of {}", mean, stddev);
  Tensor out = Tensor::empty(std::move(shape), dtype, device);
  require_real("random_normal", out);
  kernels(out, &Backend::random)->random_normal(key, mean, stddev, out);
  return out;
}

Tensor dropout(const Tensor& x, double p, RngKey key) {
  if (!(p >= 0 && p < 1)) throw Error("dropout: p = {} is not in [0, 1)", p);
  require_real("dropout", x);
  const Tensor dense = x.contiguous();
  Tensor y = dense.empty_like();
  kernels(x, &Backend::random)->dropout(key, p, dense, y);
  return y;
}

}  // namespace mobius
