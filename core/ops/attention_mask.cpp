#include "core/ops/attention_mask.h"

#include "core/error.h"
#include "core/ops/checks.h"

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
  const auto require = [&](const char* what, const Tensor& x, DType dtype, const Shape& expected) {
    if (x.dtype() != dtype) throw_unsupported_dtype(op, x.dtype());
    if (x.device() != device) {
      throw ShapeError("{}: the {} lies on {}, the scores on {}", op, what, to_string(x.device()),
                       to_string(device));
    }
    if (broadcast_shapes(op, x.shape(), expected) != expected) {
      throw ShapeError("{}: {} {} does not fit scores {}", op, what, to_string(x.shape()),
                       to_string(scores));
    }
  };
  if (mask.mask.defined()) require("mask", mask.mask, DType::u8, scores);
  if (mask.selected.defined())
    require("selection", mask.selected, DType::i32, with_last(scores, mask.selected.size(-1)));
}

}  // namespace mobius
