// Cross-entropy over a vocabulary.
#pragma once

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

constexpr std::int64_t ignored_label = -100;  // counts neither in losses nor in gradients

struct CrossEntropyResult {
  Tensor losses;       // [R] f64, logsumexp(logits[r]) - logits[r, label]; 0 where ignored
  Tensor predictions;  // [R] i64, argmax of logits[r]
  Tensor grad_logits;  // [R, V] of the SUM of losses; shares the storage of the logits given
};
/// Consumes logits[R, V] (they are overwritten by their gradient); labels[R] i32 or i64.
/// Throws Error on a label that is neither -100 nor in [0, V).
CrossEntropyResult cross_entropy(Tensor&& logits, const Tensor& labels);

class LossKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "loss";

  /// logits[R, V] is overwritten by softmax - onehot (by 0 where the label is -100): the gradient
  /// of the sum of the losses. losses[R] is f64.
  virtual void cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& losses,
                             const Tensor& predictions) = 0;
};

}  // namespace mobius
