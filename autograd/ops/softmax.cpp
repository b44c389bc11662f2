#include "autograd/ops.h"

namespace mobius {

Variable masked_softmax(const Variable& scores, double scale, const AttentionMask& mask) {
  const Tensor weights = masked_softmax(scores.data(), scale, mask);
  return record("masked_softmax", scores, weights,
                [y = Saved("masked_softmax", weights), scale](const Tensor& grad) {
                  return softmax_backward(y.get(), grad, scale);
                });
}

}  // namespace mobius
