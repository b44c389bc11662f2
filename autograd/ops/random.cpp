#include "autograd/ops.h"

namespace mobius {

// Dropout is linear, and the key gives the same mask again: nothing needs saving.
Variable dropout(const Variable& x, double p, RngKey key) {
  return record("dropout", x, dropout(x.data(), p, key),
                [p, key](const Tensor& grad) { return dropout(grad, p, key); });
}

}  // namespace mobius
