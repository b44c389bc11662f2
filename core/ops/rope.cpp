#include "core/ops/rope.h"

#include <cmath>

#include "core/ops/checks.h"

namespace mobius {

Tensor rope(const Tensor& x, double base, std::int64_t offset, int sign) {
  require_real("rope", x);
  if (x.ndim() < 2 || x.size(-1) % 2 != 0) {
    throw ShapeError("rope: x {}: expected [..., n, d] with even d", to_string(x.shape()));
  }
  if (!(base > 0) || !std::isfinite(base))
    throw Error("rope: expected a base above 0, got {}", base);
  if (sign != 1 && sign != -1) throw Error("rope: expected a sign of 1 or -1, got {}", sign);
  Tensor y = x.empty_like();
  kernels(x, &Backend::rope)->rope(with_dense_rows(x), base, offset, sign, y);
  return y;
}

}  // namespace mobius
