#include "core/ops/attention_mask.h"

#include "core/error.h"

namespace mobius {

void require_mask_fits(std::string_view op, const AttentionMask& mask, const Shape& scores,
                       Device device) {
  if (mask.window < 0 || mask.stride < 0 || mask.n_global < 0) {
    throw Error("{}: a mask of window {}, stride {} and n_global {}: none may be negative", op,
                mask.window, mask.stride, mask.n_global);
  }
  if (mask.window == 0 && (mask.stride > 0 || mask.n_global > 0)) {
    throw Error("{}: a stride or n_global has no effect on a mask without a window", op);
  }
  if (!mask.mask.defined()) return;
  if (mask.mask.dtype() != DType::u8) throw_unsupported_dtype(op, mask.mask.dtype());
  if (mask.mask.device() != device) {
    throw ShapeError("{}: the mask lies on {}, the scores on {}", op, to_string(mask.mask.device()),
                     to_string(device));
  }
  if (broadcast_shapes(op, mask.mask.shape(), scores) != scores) {
    throw ShapeError("{}: mask {} does not fit scores {}", op, to_string(mask.mask.shape()),
                     to_string(scores));
  }
}

}  // namespace mobius
