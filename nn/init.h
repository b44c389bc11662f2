// Initial values of parameters.
#pragma once

#include <cstdint>
#include <string>

#include "core/rng.h"
#include "core/tensor.h"

namespace mobius {

/// Makes initial values from a seed. Every parameter draws from a stream of its own, so adding one
/// does not change the others; matrices are N(0, std) or orthogonal, by `orthogonal`.
class Initializer {
 public:
  Initializer(std::uint64_t seed, double std, bool orthogonal, DType dtype, Device device);

  /// For the parameters of a named part: "blocks.0", then "attention", ...
  Initializer at(const std::string& part) const;

  /// A matrix [rows, cols] for the parameter `name`, times `gain`.
  Tensor matrix(const std::string& name, std::int64_t rows, std::int64_t cols,
                double gain = 1) const;
  Tensor zeros(Shape shape) const;
  Tensor full(Shape shape, double value) const;

 private:
  std::uint64_t seed_;
  double std_;
  bool orthogonal_;
  DType dtype_;
  Device device_;
  std::string path_;
};

}  // namespace mobius
