#include "autograd/ops/random.h"

#include <utility>

namespace mobius {

Variable dropout(const Variable& x, double p, RngKey key) {
  // Dropping is linear and the key gives the same mask again: nothing needs saving.
  return record("dropout", {x}, dropout(x.data(), p, key),
                [p, key](const std::vector<Tensor>& grads, const NeedsGrad&) {
                  return std::vector<Tensor>{dropout(grads[0], p, key)};
                });
}

}  // namespace mobius
