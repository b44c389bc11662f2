// Cross-entropy, of logits or of hidden vectors and an output matrix.
#pragma once

#include "autograd/variable.h"
#include "core/ops/loss.h"
#include "core/ops/matmul.h"

namespace mobius {

struct LossResult {
  Variable loss;        // scalar: sum of the losses / normalizer; 0 when no label counts
  double loss_sum = 0;  // over the labels that count, undivided
  Tensor positions;     // i64 [L]: where in the flattened labels each label that counts stands
  Tensor predictions;   // i64 [L]: the likeliest token there
  std::int64_t n_labels() const { return positions.numel(); }
};
/// Mean cross-entropy of logits[R, V] over the labels[R] that are not -100. `normalizer` replaces
/// the count of those labels when positive: a micro-batch divides by the count of its whole batch.
LossResult cross_entropy(const Variable& logits, const Tensor& labels, double normalizer = 0);
/// cross_entropy(hidden[..., D] weight[V, D]^T, labels[...]) without the logits of ignored
/// positions, and in chunks of rows, so that no full [rows, V] matrix exists. `precision` as in
/// linear(): of hidden, weight and the gradient of the logits.
LossResult linear_cross_entropy(const Variable& hidden, const Variable& weight,
                                const Tensor& labels, double normalizer = 0,
                                ProductPrecision precision = ProductPrecision::full);

}  // namespace mobius
