// The host's side of attention on tensor cores: which calls it serves, packing, the choice of
// widths, and the sum over splits of the keys. Buffers: outputs are overwritten (=).
#include <algorithm>

#include "core/cuda/attention/pack.cuh"
#include "core/cuda/attention/tensor_forward.cuh"
#include "core/cuda/attention/tensor_kernels.h"
#include "core/cuda/attention/tensor_path.h"
#include "core/cuda/attention/tensor_query_gradients.cuh"
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
  const TileSize tile = Kernels::forward_tile();
  const std::int64_t blocks = std::int64_t{p.batch} * p.heads * ceil_div(p.n_q, tile.queries);
  const std::int64_t wanted =
      ceil_div(std::int64_t{multiprocessors()}, std::max<std::int64_t>(blocks, 1));
  const std::int64_t most = ceil_div(p.n_k, tile.keys * least_tiles);
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

/// grad += the sums of diagonals that tiles of queries left (QueryGradientCall), over the batch and
/// the tiles in order. A thread for each entry of [H, Nq + Nk - 1].
__global__ void add_diagonals(const AttentionProblem<float> p, const float* diagonals, int width,
                              int first_tile, int tiles, int queries, float* grad) {
  const std::int64_t entry = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int distances = p.n_q + p.n_k - 1;
  if (entry >= std::int64_t{p.heads} * distances) return;
  const auto h = static_cast<int>(entry / distances), t = static_cast<int>(entry % distances);
  float sum = grad[entry];
  for (int b = 0; b < p.batch; ++b) {
    for (int tile = 0; tile < tiles; ++tile) {
      const int at = t - (p.n_q - 1) + (first_tile + tile) * queries + queries - 1;
      if (at >= 0 && at < width)
        sum += diagonals[((std::int64_t{b} * p.heads + h) * tiles + tile) * width + at];
    }
  }
  grad[entry] = sum;
}

/// The gradients of queries, and of distances: some tiles of queries at a time, as many as fill the
/// device, so that their sums of diagonals take little memory.
template <class Kernels>
void query_and_distance_gradients(const AttentionSpec& spec, QueryGradientCall& call,
                                  const Tensor& grad) {
  const AttentionProblem<float>& p = call.problem;
  const TileSize tile = Kernels::query_gradient_tile();
  const int all_tiles = ceil_div(p.n_q, tile.queries);
  const std::int64_t heads = std::int64_t{p.batch} * p.heads;
  const std::int64_t at_once = std::clamp<std::int64_t>(
      4 * multiprocessors() / std::max<std::int64_t>(heads, 1), 1, std::max(all_tiles, 1));
  call.diagonal_width = round_up(p.n_k, tile.keys) + tile.queries;
  Tensor(grad).fill(0);
  for (int first = 0; first < all_tiles; first += static_cast<int>(at_once)) {
    call.first_tile = first;
    call.tiles = std::min(static_cast<int>(at_once), all_tiles - first);
    const Tensor diagonals =
        Tensor::zeros({heads, call.tiles, call.diagonal_width}, DType::f32, grad.device());
    call.diagonals = diagonals.data<float>();
    Kernels::query_gradients(spec, call);
    launch(add_diagonals, for_elements(grad.numel()), p, call.diagonals, call.diagonal_width, first,
           call.tiles, tile.queries, grad.data<float>());
  }
}

template <class Kernels>
void backward(const AttentionSpec& spec, const AttentionInputs& inputs, TensorWidths widths,
              const Tensor& out, const Tensor& lse, const Tensor& grad_out,
              const AttentionGrads& grads) {
  const PackedInputs packed = pack_inputs(spec, inputs, widths);
  const PackedGradients gradients = pack_gradients(spec, packed.call, widths, out, lse, grad_out);
  BackwardCall call(packed.call);
  call.grad_out = gradients.grad_out;
  call.rows = gradients.rows;
  call.grad_q = grads.q.data<float>();
  call.grad_k = grads.k.data<float>();
  call.grad_v = grads.v.data<float>();
  call.grad_numbers = number_addresses<float>(grads);
  Kernels::key_gradients(spec, call);
  QueryGradientCall query_call(call);
  if (grads.distance_bias.defined()) {
    query_and_distance_gradients<Kernels>(spec, query_call, grads.distance_bias);
    return;
  }
  query_call.tiles = ceil_div(call.problem.n_q, Kernels::query_gradient_tile().queries);
  Kernels::query_gradients(spec, query_call);
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

void tensor_attention_backward(const AttentionSpec& spec, const AttentionInputs& inputs,
                               const Tensor& out, const Tensor& lse, const Tensor& grad_out,
                               const AttentionGrads& grads) {
  with_tensor_kernels(inputs.q.size(3), inputs.v.size(3), [&](auto kernels, int d, int dv) {
    backward<decltype(kernels)>(spec, inputs, {d, dv}, out, lse, grad_out, grads);
  });
}

}  // namespace mobius::cuda
