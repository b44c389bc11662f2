// Random tensors and dropout: functions of their RngKey alone (core/rng.h).
#pragma once

#include "core/backend.h"
#include "core/rng.h"
#include "core/tensor.h"

namespace mobius {

/// In [low, high), a finite range.
Tensor random_uniform(Shape shape, double low, double high, RngKey key, DType dtype = DType::f32,
                      Device device = {});
Tensor random_normal(Shape shape, double mean, double stddev, RngKey key, DType dtype = DType::f32,
                     Device device = {});
/// Each element is 0 with probability p, else x / (1 - p); p in [0, 1). Equal keys drop equal
/// elements.
Tensor dropout(const Tensor& x, double p, RngKey key);

class RandomKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "random";

  /// Element i of a real tensor comes from Philox block i / 4 (f32) or i / 2 (f64) of the stream.
  virtual void random_uniform(RngKey key, double low, double high, const Tensor& out) = 0;
  virtual void random_normal(RngKey key, double mean, double stddev, const Tensor& out) = 0;
  /// The mask comes from the stream as word i for element i, for either type. p may be 1.
  virtual void dropout(RngKey key, double p, const Tensor& x, const Tensor& y) = 0;
};

}  // namespace mobius
