// Rotary position embedding. A thread rotates a pack of pairs of one row.
// Buffers: y is dense and overwritten (=); x is strided, with dense rows.
#include "core/cuda/kernels.h"
#include "core/cuda/rotations.cuh"
#include "core/cuda/rows.cuh"
#include "core/ops/rope.h"

namespace mobius {
namespace cuda {
namespace {

template <class T>
struct RopeArguments {
  const T* x;
  RowStarts starts;
  std::int64_t n_rows, n_positions;
  RotationTable<T> rotations;
  T* y;
};

template <class T, int kWidth>
__global__ void __launch_bounds__(most_in_team) rope_kernel(RopeArguments<T> p) {
  const std::int64_t r = row_of_team(), half = p.rotations.half;
  if (r >= p.n_rows) return;
  const std::int64_t position = r % p.n_positions;
  const T* const x = p.x + p.starts[r];
  T* const y = p.y + r * 2 * half;
  for_packs_of_row<kWidth>(half, pack_shift<kWidth>(x), [&](PackPlace<kWidth> place) {
    Pack<T, kWidth> a = load(x, place), b = load(x + half, place);
    rotate(a, b, p.rotations.cosines(position, place), p.rotations.sines(position, place));
    store(a, y, place);
    store(b, y + half, place);
  });
}

class CudaRope final : public RopeKernels {
 public:
  void rope(const Tensor& x, double base, std::int64_t offset, int sign, const Tensor& y) override {
    if (x.numel() == 0) return;
    dispatch_real("rope", x.dtype(), [&]<class T>(TypeTag<T>) {
      const std::int64_t n_positions = x.size(-2), half = x.size(-1) / 2;
      const Rotations<T> rotations(n_positions, half, base, offset, sign, x.device());
      const RopeArguments<T> p{x.data<T>(), RowStarts(x),      x.numel() / (2 * half),
                               n_positions, rotations.table(), y.data<T>()};
      constexpr int width = pack_width<T>;
      launch(rope_kernel<T, width>, for_teams(p.n_rows, ceil_div(half, width)), p);
    });
  }
};

}  // namespace
}  // namespace cuda

RopeKernels& cuda_rope_kernels() { return only<cuda::CudaRope>(); }

}  // namespace mobius
