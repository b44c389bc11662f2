// Cross-entropy, of logits or of hidden vectors and an output matrix.
#pragma once

#include "autograd/variable.h"
#include "core/ops/loss.h"
#include "core/ops/matmul.h"

namespace mobius {

/// Its numbers stay in the memory of the device until they are read.
struct LossResult {
  Variable loss;       // scalar: sum of the losses / normalizer; 0 when no label counts
  Tensor sums;         // f64 [2]: sum of the losses, undivided; number of scored right predictions
  Tensor predictions;  // i64 [L]: the likeliest class for each label that counts

  std::int64_t n_labels() const { return predictions.numel(); }
  /// Reads it, and waits for the device to have it.
  double loss_sum() const { return sums.slice(0, 0, 1).item(); }
};
/// Mean cross-entropy of logits[R, V] over the labels[R] that count. `normalizer` replaces their
/// number when positive: a micro-batch divides by the count of its whole batch.
LossResult cross_entropy(const Variable& logits, const Labels& labels, double normalizer = 0);
/// Finds the labels[R] (i32 or i64) that are not -100 first.
LossResult cross_entropy(const Variable& logits, const Tensor& labels, double normalizer = 0);
/// cross_entropy(hidden[..., D] weight[V, D]^T, labels[...]) without the logits of ignored
/// positions, and in chunks of rows, so that no full [rows, V] matrix exists. `precision` as in
/// linear(): of hidden, weight and the gradient of the logits.
LossResult linear_cross_entropy(const Variable& hidden, const Variable& weight,
                                const Labels& labels, double normalizer = 0,
                                ProductPrecision precision = ProductPrecision::full);
LossResult linear_cross_entropy(const Variable& hidden, const Variable& weight,
                                const Tensor& labels, double normalizer = 0,
                                ProductPrecision precision = ProductPrecision::full);

}  // namespace mobius
