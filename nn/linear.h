// Affine maps and embedding tables.
#pragma once

#include <vector>

#include "autograd/ops.h"
#include "nn/init.h"
#include "nn/module.h"

namespace mobius {

/// y = x weight^T + bias over the last dimension: weight [out, in], bias [out], which starts at 0.
class Linear : public Module {
 public:
  /// `gain` is a factor on the standard deviation of the initial weight.
  Linear(const Initializer& init, std::int64_t in, std::int64_t out, bool bias, double gain = 1);
  /// Makes one layer for several outputs, whose rows of the weight are initialised as separate
  /// matrices; see Initializer::stacked().
  Linear(const Initializer& init, std::int64_t in, const std::vector<std::int64_t>& outs,
         bool bias);
  /// Makes a layer without bias that shares another module's matrix, which is saved once.
  explicit Linear(const Variable& tied_weight, MatmulPrecision products = MatmulPrecision::full);

  /// x[..., in] -> [..., out].
  Variable forward(const Variable& x) const { return linear(x, weight_, bias_, products_); }
  /// activation(forward(x)), in one pass.
  Variable forward(const Variable& x, Activation activation) const {
    return linear_activation(x, weight_, bias_, activation, products_);
  }
  const Variable& weight() const { return weight_; }
  MatmulPrecision products() const { return products_; }

 private:
  Variable weight_;
  Variable bias_;  // undefined without bias
  MatmulPrecision products_;
};

/// A table weight [n, d], read by row.
class Embedding : public Module {
 public:
  Embedding(const Initializer& init, std::int64_t n, std::int64_t d);

  /// An index of any shape into the n rows -> [index..., d].
  Variable forward(const RowIndex& index) const { return gather_rows(weight_, index); }
  /// Rows [begin, end).
  Variable rows(std::int64_t begin, std::int64_t end) const {
    return slice(weight_, 0, begin, end);
  }
  const Variable& weight() const { return weight_; }

 private:
  Variable weight_;
};

}  // namespace mobius
