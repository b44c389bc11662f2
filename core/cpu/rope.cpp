// Rotary position embedding.
// Buffers: y is dense and overwritten (=); rows of x lie anywhere, each dense.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/rope.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <cassert>

#include "core/cpu/kernels.h"
#include "core/cpu/rotations.h"
#include "core/cpu/simd/rotate-inl.h"
#include "core/ops/rope.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

template <class T>
void rotate_rows(const RowsOf<T>& x, const Rotations<T>& rotations, T* y, std::int64_t begin,
                 std::int64_t end) {
  const std::int64_t half = x.width / 2;
  for (std::int64_t r = begin; r < end; ++r) {
    const std::int64_t angles = r % x.rows_each * half;
    rotate_row(x.row(r), rotations.cosines.data() + angles, rotations.sines.data() + angles, half,
               y + r * x.width);
  }
}

void rotate_rows_f32(const RowsOf<float>& x, const Rotations<float>& rotations, float* y,
                     std::int64_t begin, std::int64_t end) {
  rotate_rows(x, rotations, y, begin, end);
}
void rotate_rows_f64(const RowsOf<double>& x, const Rotations<double>& rotations, double* y,
                     std::int64_t begin, std::int64_t end) {
  rotate_rows(x, rotations, y, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(rotate_rows_f32);
HWY_EXPORT(rotate_rows_f64);

namespace {

void rotate(const RowsOf<float>& x, const Rotations<float>& rotations, float* y, std::int64_t begin,
            std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(rotate_rows_f32)(x, rotations, y, begin, end);
}
void rotate(const RowsOf<double>& x, const Rotations<double>& rotations, double* y,
            std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(rotate_rows_f64)(x, rotations, y, begin, end);
}

class CpuRope final : public RopeKernels {
 public:
  void rope(const Tensor& x, double base, std::int64_t offset, int sign, const Tensor& y) override {
    if (x.numel() == 0) return;
    assert(x.size(-1) % 2 == 0 && (x.stride(-1) == 1 || x.size(-1) < 2));
    const std::vector<std::int64_t> offsets = leading_offsets(x, 2);
    dispatch_real("rope", x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const Rotations<T> rotations(x.size(-2), x.size(-1) / 2, base, offset, sign);
      const RowsOf<T> rows(x, offsets);
      parallel_for(x.numel() / x.size(-1), row_grain(x.size(-1)),
                   [&](std::int64_t begin, std::int64_t end) {
                     rotate(rows, rotations, y.data<T>(), begin, end);
                   });
    });
  }
};

}  // namespace

RopeKernels& cpu_rope_kernels() {
  static CpuRope kernels;
  return kernels;
}

}  // namespace mobius
#endif  // HWY_ONCE
