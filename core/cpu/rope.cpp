// Rotary position embedding.
// Buffers: y is dense and overwritten (=); x is strided, with dense rows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/rope.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <cassert>

#include "core/cpu/kernels.h"
#include "core/cpu/rotations.h"
#include "core/cpu/simd/vectors-inl.h"
#include "core/ops/rope.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

class CpuRope final : public RopeKernels {
 public:
  void rope(const Tensor& x, double base, std::int64_t offset, int sign, const Tensor& y) override {
    if (x.numel() == 0) return;
    assert(x.size(-1) % 2 == 0 && (x.stride(-1) == 1 || x.size(-1) < 2));
    dispatch_real("rope", x.dtype(), [&]<class T>(TypeTag<T>) {
      const std::vector<std::int64_t> offsets = leading_offsets(x, 2);
      const RowsOf<T> rows(x, offsets);
      const Rotations<T> rotations(rows.rows_each, rows.width / 2, base, offset, sign);
      const std::int64_t half = rows.width / 2;
      T* const to = y.data<T>();
      parallel_for_each(x.numel() / rows.width, row_grain(rows.width), [&](std::int64_t r) {
        const std::int64_t angles = r % rows.rows_each * half;
        rotate_row(rows.row(r), rotations.cosines.data() + angles, rotations.sines.data() + angles,
                   half, to + r * rows.width);
      });
    });
  }
};

RopeKernels& rope_kernels() { return only<CpuRope>(); }

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(rope_kernels);
RopeKernels& cpu_rope_kernels() { return HWY_DYNAMIC_DISPATCH(rope_kernels)(); }

}  // namespace mobius
#endif  // HWY_ONCE
