// The host's side of attention on tensor cores: which calls it serves, packing, the choice of
// widths, and the sum over splits of the keys. Buffers: outputs are overwritten (=).
#include <algorithm>

#include "core/cuda/attention/pack.cuh"
#include "core/cuda/attention/tensor_forward.cuh"
#include "core/cuda/attention/tensor_kernels.h"
#include "core/cuda/attention/tensor_path.h"
#include "core/cuda/launch.cuh"
#include "core/cuda/reduce.cuh"

namespace mobius::cuda {
namespace {

/// What the splits of a call left: out [splits, B, H, Nq, Dv] and lse [splits, B, H, Nq], which is
/// -infinity where a split saw nothing.
struct Splits {
  int n;
  const float* out;
  const float* lse;  // null without a softmax, where the parts of out simply add
  std::int64_t rows;
};

/// The sum over the splits of a row, in their order. A warp for each row.
__global__ void combine_splits(const AttentionProblem<float> p, const Splits splits,
                               const HeadRows<float> out, float* lse) {
  const std::int64_t row = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / warp_size;
  if (row >= splits.rows) return;
  const int lane = static_cast<int>(threadIdx.x % warp_size);
  float largest = -INFINITY, total = 0;
  if (splits.lse) {
    for (int s = 0; s < splits.n; ++s) largest = fmaxf(largest, splits.lse[s * splits.rows + row]);
    const float shift = largest == -INFINITY ? 0 : largest;
    for (int s = 0; s < splits.n; ++s) total += expf(splits.lse[s * splits.rows + row] - shift);
    if (lane == 0) lse[row] = total > 0 ? shift + logf(total) : INFINITY;
  }
  const auto i = static_cast<int>(row % p.n_q);
  const auto matrix = static_cast<int>(row / p.n_q);
  float* const to = out.row(matrix / p.heads, matrix % p.heads, i);
  for (int c = lane; c < p.dv; c += warp_size) {
    float sum = 0;
    for (int s = 0; s < splits.n; ++s) {
      float weight = 1;
      if (splits.lse)
        weight = total > 0 ? expf(splits.lse[s * splits.rows + row] - largest) / total : 0;
      sum = fmaf(weight, splits.out[(s * splits.rows + row) * p.dv + c], sum);
    }
    to[c] = sum;
  }
}

/// Into how many splits the keys are dealt: one if the tiles of queries fill the device.
template <class Kernels>
int count_splits(const AttentionProblem<float>& p) {
  constexpr int least_tiles = 4;  // of keys, for which a split is worth its own sum
  const std::int64_t blocks =
      std::int64_t{p.batch} * p.heads * ceil_div(p.n_q, Kernels::forward_queries());
  const std::int64_t wanted =
      ceil_div(std::int64_t{multiprocessors()}, std::max<std::int64_t>(blocks, 1));
  const std::int64_t most = ceil_div(p.n_k, Kernels::forward_keys() * least_tiles);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(most, 1)));
}

template <class Kernels>
void forward(const AttentionSpec& spec, const AttentionInputs& inputs, TensorWidths widths,
             const Tensor& out, const Tensor& lse) {
  const PackedInputs packed = pack_inputs(spec, inputs, widths);
  const AttentionProblem<float>& p = packed.call.problem;
  ForwardCall call{packed.call};
  call.splits = count_splits<Kernels>(p);
  if (call.splits == 1) {
    call.out = HeadRows<float>(out);
    call.lse = lse.defined() ? lse.data<float>() : nullptr;
    call.lse_of_nothing = INFINITY;
    Kernels::forward(spec, call);
    return;
  }
  const std::int64_t rows = std::int64_t{p.batch} * p.heads * p.n_q;
  const Tensor outs =
      Tensor::empty({call.splits, p.batch, p.heads, p.n_q, p.dv}, DType::f32, out.device());
  const Tensor sums = Tensor::empty({call.splits, rows}, DType::f32, out.device());
  call.out = HeadRows<float>(outs.slice(0, 0, 1).squeeze(0));
  call.lse = sums.data<float>();
  call.out_split = rows * p.dv;
  call.lse_split = rows;
  call.lse_of_nothing = -INFINITY;
  Kernels::forward(spec, call);
  launch(combine_splits, for_warps(rows), p,
         Splits{call.splits, outs.data<float>(), lse.defined() ? call.lse : nullptr, rows},
         HeadRows<float>(out), lse.defined() ? lse.data<float>() : nullptr);
}

}  // namespace

bool tensor_path_serves(const AttentionSpec& spec, const AttentionInputs& inputs) {
  return spec.precision == MatmulPrecision::bf16 && inputs.q.dtype() == DType::f32 &&
         std::max(inputs.q.size(3), inputs.v.size(3)) <= tensor_max_width;
}

void tensor_attention(const AttentionSpec& spec, const AttentionInputs& inputs, const Tensor& out,
                      const Tensor& lse) {
  with_tensor_kernels(inputs.q.size(3), inputs.v.size(3), [&](auto kernels, int d, int dv) {
    forward<decltype(kernels)>(spec, inputs, {d, dv}, out, lse);
  });
}

}  // namespace mobius::cuda
