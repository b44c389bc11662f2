#include "autograd/ops/softmax.h"

#include <utility>

namespace mobius {

Variable masked_softmax(const Variable& scores, double scale, const AttentionMask& mask) {
  Tensor weights = masked_softmax(scores.data(), scale, mask);
  Saved saved("masked_softmax", weights);
  return record("masked_softmax", {scores}, std::move(weights),
                [saved, scale](const std::vector<Tensor>& grads, const NeedsGrad&) {
                  return std::vector<Tensor>{softmax_backward(saved.get(), grads[0], scale)};
                });
}

}  // namespace mobius
