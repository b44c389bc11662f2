// Initial values of parameters.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/ops.h"
#include "core/rng.h"
#include "core/tensor.h"

namespace mobius {

/// Makes initial values from a seed. Each parameter has its own random stream, named by its path,
/// so adding one does not change the others. Matrices are N(0, std^2) or orthogonal.
class Initializer {
 public:
  /// `products` is the matmul precision of the layers. Parameters have type `dtype`.
  Initializer(std::uint64_t seed, double std, bool orthogonal, DType dtype, Device device,
              MatmulPrecision products = MatmulPrecision::full);

  /// Makes an initializer of shapes without values, which finds out whether a module can be built:
  /// every tensor is a view of one number.
  static Initializer without_values();

  /// Returns the initializer of a named part: "blocks", then "0", then "attention", ...
  Initializer at(const std::string& part) const;
  /// The dotted path of this part: "blocks.0.attention"; empty for the whole model.
  const std::string& path() const { return path_; }

  /// Makes a matrix [rows, cols] for the parameter `name`. `gain` is a factor on the standard
  /// deviation; orthogonal matrices ignore it.
  Tensor matrix(const std::string& name, std::int64_t rows, std::int64_t cols,
                double gain = 1) const;
  /// Makes matrices of rows[0], rows[1], ... rows, one below the other in [sum of rows, cols]. If
  /// matrices are orthogonal, each of these is.
  Tensor stacked(const std::string& name, const std::vector<std::int64_t>& rows, std::int64_t cols,
                 double gain = 1) const;
  /// Returns the random stream of the parameter or buffer `name`.
  RngKey key(const std::string& name) const;
  Tensor zeros(Shape shape) const { return full(std::move(shape), 0); }
  Tensor full(Shape shape, double value) const;

  /// False for without_values().
  bool has_values() const { return has_values_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  MatmulPrecision products() const { return products_; }

 private:
  std::uint64_t seed_;
  double std_;
  bool orthogonal_;
  bool has_values_ = true;
  DType dtype_;
  Device device_;
  MatmulPrecision products_;
  std::string path_;
};

/// The x with softplus(x) = y, y > 0: the initial value behind a positive parameter.
double inverse_softplus(double y);

/// Makes a uniformly distributed matrix [rows, cols] with orthonormal rows or columns, whichever
/// are fewer: the orthogonal factor of a Gaussian matrix.
Tensor random_orthogonal(std::int64_t rows, std::int64_t cols, RngKey key, DType dtype,
                         Device device = {});

}  // namespace mobius
