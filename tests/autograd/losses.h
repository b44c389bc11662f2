// The losses of labels that are a tensor.
#pragma once

#include "autograd/ops.h"

namespace mobius {

inline LossResult cross_entropy(const Variable& logits, const Tensor& labels,
                                double normalizer = 0) {
  return cross_entropy(logits, Labels("cross_entropy", labels, logits.size(1)), normalizer);
}
inline LossResult linear_cross_entropy(const Variable& hidden, const Variable& weight,
                                       const Tensor& labels, double normalizer = 0,
                                       MatmulPrecision precision = MatmulPrecision::full) {
  return linear_cross_entropy(hidden, weight,
                              Labels("linear_cross_entropy", labels, weight.size(0)), normalizer,
                              precision);
}

}  // namespace mobius
