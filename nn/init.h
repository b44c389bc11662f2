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

/// Makes initial values from a seed. Every parameter draws from a stream of its own, named by its
/// path, so adding one does not change the others. Matrices are N(0, std^2), or orthogonal.
class Initializer {
 public:
  /// `products` is the precision of the layers' matrix products; parameters are of `dtype`.
  Initializer(std::uint64_t seed, double std, bool orthogonal, DType dtype, Device device,
              ProductPrecision products = ProductPrecision::full);

  /// Gives shapes without values, to find out whether a module can be built: every tensor is a view
  /// of one number, whatever its size.
  static Initializer without_values();

  /// For the parameters of a named part: "blocks", then "0", then "attention", ...
  Initializer at(const std::string& part) const;
  /// The dotted path of this part: "blocks.0.attention"; empty for the whole model.
  const std::string& path() const { return path_; }

  /// A matrix [rows, cols] for the parameter `name`. `gain` is a factor on the standard deviation;
  /// an orthogonal matrix has no scale to choose and takes none.
  Tensor matrix(const std::string& name, std::int64_t rows, std::int64_t cols,
                double gain = 1) const;
  /// Matrices of rows[0], rows[1], ... rows, one below the other in [sum of rows, cols]: where
  /// matrices are orthogonal, each of them is.
  Tensor stacked(const std::string& name, const std::vector<std::int64_t>& rows, std::int64_t cols,
                 double gain = 1) const;
  /// The stream of the parameter or buffer `name`.
  RngKey key(const std::string& name) const;
  Tensor zeros(Shape shape) const { return full(std::move(shape), 0); }
  Tensor full(Shape shape, double value) const;

  /// Whether it makes values: false of without_values().
  bool has_values() const { return has_values_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  ProductPrecision products() const { return products_; }

 private:
  std::uint64_t seed_;
  double std_;
  bool orthogonal_;
  bool has_values_ = true;
  DType dtype_;
  Device device_;
  ProductPrecision products_;
  std::string path_;
};

/// The x with softplus(x) = y, y > 0: the initial value behind a positive parameter.
double inverse_softplus(double y);

/// A matrix [rows, cols] with orthonormal rows or columns, whichever are fewer, uniformly
/// distributed: the orthogonal factor of a Gaussian matrix.
Tensor random_orthogonal(std::int64_t rows, std::int64_t cols, RngKey key, DType dtype,
                         Device device = {});

}  // namespace mobius
