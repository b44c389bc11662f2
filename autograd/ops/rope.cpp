#include "autograd/ops/rope.h"

#include <utility>

namespace mobius {

Variable rope(const Variable& x, double base, std::int64_t offset) {
  return record("rope", {x}, rope(x.data(), base, offset),
                [base, offset](const std::vector<Tensor>& grads, const NeedsGrad&) {
                  return std::vector<Tensor>{rope(grads[0], base, offset, -1)};
                });
}

}  // namespace mobius
