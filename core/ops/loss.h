// Cross-entropy over a vocabulary.
#pragma once

#include "core/backend.h"
#include "core/labels.h"
#include "core/tensor.h"

namespace mobius {

struct CrossEntropyResult {
  Tensor losses;       // [R] f64, logsumexp(logits[r]) - logits[r, label]; 0 where ignored
  Tensor predictions;  // [R] i64, argmax of logits[r]
  Tensor grad_logits;  // [R, V] of the SUM of losses; shares the storage of the logits given
};
/// Overwrites logits[R, V] by their gradient. labels[R] are i32 or i64 and are read back from a
/// device. Throws Error unless each label is -100 or in [0, V).
CrossEntropyResult cross_entropy(Tensor&& logits, const Tensor& labels);
/// Takes the labels begin, ..., begin + R - 1 of those that count.
CrossEntropyResult cross_entropy(Tensor&& logits, const Labels& labels, std::int64_t begin = 0);

/// The number of right and scored predictions[R] (i64) for the labels begin, ..., begin + R - 1: a
/// scalar in f64.
Tensor count_correct(const Tensor& predictions, const Labels& labels, std::int64_t begin = 0);

class LossKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "loss";

  /// logits[R, V] is overwritten by softmax - onehot (by 0 where the label is -100): the gradient
  /// of the sum of the losses. losses[R] is f64. A loss that is not finite has a gradient that is
  /// not finite, so that a check of the gradients finds it.
  virtual void cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& losses,
                             const Tensor& predictions) = 0;
  /// count = number of r with predictions[r] == labels[r] (both i64) and scored[r] (u8) not 0.
  virtual void count_correct(const Tensor& predictions, const Tensor& labels, const Tensor& scored,
                             const Tensor& count) = 0;
};

}  // namespace mobius
