#include "autograd/ops.h"

namespace mobius {

Variable rope(const Variable& x, double base, std::int64_t offset) {
  return record("rope", x, rope(x.data(), base, offset),
                [=](const Tensor& grad) { return rope(grad, base, offset, -1); });
}

}  // namespace mobius
