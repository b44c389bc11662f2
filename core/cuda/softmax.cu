// Softmax over rows in two passes, of which the second finds the row in cache: the largest score
// with the sum of the exponentials, then the weights. A team of threads has a row. A causal row
// reads the keys it sees and zeroes the rest. Sums of f32 run in f32. Buffers: dense, overwritten
// (=); an output may be one of the inputs.
#include "core/cuda/kernels.h"
#include "core/cuda/softmax.cuh"
#include "core/mask_pattern.h"
#include "core/ops/checks.h"
#include "core/ops/softmax.h"

namespace mobius {
namespace cuda {
namespace {

/// The rows of a tensor that is broadcast to [..., n_q, n].
template <class T>
struct MaskRows {
  const T* data = nullptr;  // null: none
  RowStarts starts;
  std::int64_t n = 0, stride = 0;

  MaskRows() = default;
  /// x may be undefined.
  MaskRows(const Tensor& x, const Shape& shape) {
    if (!x.defined()) return;
    const Tensor expanded = x.expand(shape);
    data = x.data<T>();
    starts = RowStarts(expanded);
    n = expanded.size(-1);
    stride = expanded.stride(-1);
  }
  __device__ const T* row(std::int64_t r) const { return data ? data + starts[r] : nullptr; }
};

template <class T>
struct SoftmaxArguments {
  const T* scores;
  T scale;
  MaskPattern pattern;
  MaskRows<std::uint8_t> mask;
  std::int64_t n_rows;
  T* weights;
};

/// The scores of a row, scaled; -inf where the key is hidden.
template <class T>
struct ScoreRow {
  const T* scores;
  T scale;
  const std::uint8_t* mask;
  std::int64_t mask_stride;

  template <int kWidth>
  __device__ Pack<T, kWidth> operator()(PackPlace<kWidth> place) const {
    Pack<T, kWidth> x = load(scores, place);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const bool seen = place.has(i) && (!mask || mask[(place.first + i) * mask_stride] != 0);
      x[i] = seen ? scale * x[i] : -std::numeric_limits<T>::infinity();
    }
    return x;
  }
};

template <class T, int kWidth>
__global__ void __launch_bounds__(most_in_team) masked_softmax_kernel(SoftmaxArguments<T> p) {
  const std::int64_t r = row_of_team(), n_k = p.pattern.n_k;
  const bool exists = r < p.n_rows;
  const std::int64_t i = r % p.pattern.n_q, n = exists ? p.pattern.keys_of(i, i + 1).end : 0;
  const ScoreRow<T> score{p.scores + r * n_k, p.scale, exists ? p.mask.row(r) : nullptr,
                          p.mask.stride};
  const int shift = pack_shift<kWidth>(score.scores);
  RunningSoftmax<T> softmax;
  for_packs_of_row<kWidth>(n, shift, [&](PackPlace<kWidth> place) { softmax.add(score(place)); });
  softmax.combine_team();
  const T inverse = 1 / softmax.sum;
  for_packs_of_row<kWidth>(exists ? n_k : 0, shift, [&](PackPlace<kWidth> place) {
    const PackPlace<kWidth> seen(place.first, n);
    Pack<T, kWidth> y;
    if (!seen.is_empty()) {
      const Pack<T, kWidth> x = score(seen);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) y[k] = seen.has(k) ? softmax.weight(x[k], inverse) : T{0};
    }
    store(y, p.weights + r * n_k, place);
  });
}

template <class T, int kWidth>
__global__ void __launch_bounds__(most_in_team)
    softmax_backward_kernel(const T* weights, const T* grad, T scale, std::int64_t n_rows,
                            std::int64_t n_k, T* grad_scores) {
  const std::int64_t r = row_of_team(), n = r < n_rows ? n_k : 0, at = r * n_k;
  const int shift = pack_shift<kWidth>(weights + at);
  T sum = 0;
  for_packs_of_row<kWidth>(n, shift, [&](PackPlace<kWidth> place) {
    const auto w = load(weights + at, place), g = load(grad + at, place);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum += w[k] * g[k];
  });
  const T mean = team_sum(sum);
  for_packs_of_row<kWidth>(n, shift, [&](PackPlace<kWidth> place) {
    const auto w = load(weights + at, place), g = load(grad + at, place);
    Pack<T, kWidth> y;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) y[k] = scale * w[k] * (g[k] - mean);
    store(y, grad_scores + at, place);
  });
}

// ---- the mask itself

struct MaskArguments {
  MaskPattern pattern;
  MaskRows<std::uint8_t> mask;
  MaskRows<std::int32_t> selected;
  std::int64_t n_rows;
  std::uint8_t* allowed;
};

/// Whether the ascending row holds j.
__device__ bool holds(const std::int32_t* row, std::int64_t stride, std::int64_t n,
                      std::int64_t j) {
  std::int64_t begin = 0, end = n;
  while (begin < end) {
    const std::int64_t middle = (begin + end) / 2;
    if (row[middle * stride] < j)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin < n && row[begin * stride] == j;
}

__global__ void __launch_bounds__(most_in_team) materialize_mask_kernel(MaskArguments p) {
  const std::int64_t r = row_of_team();
  if (r >= p.n_rows) return;
  const std::int64_t i = r % p.pattern.n_q, n_k = p.pattern.n_k;
  const IndexRange span = p.pattern.keys_of(i, i + 1);
  const std::uint8_t* const mask = p.mask.row(r);
  const std::int32_t* const selected = p.selected.row(r);
  for (std::int64_t j = threadIdx.x; j < n_k; j += blockDim.x) {
    bool seen = j >= span.begin && j < span.end && p.pattern.sees(i, j);
    if (seen && mask) seen = mask[j * p.mask.stride] != 0;
    if (seen && selected) seen = holds(selected, p.selected.stride, p.selected.n, j);
    p.allowed[r * n_k + j] = seen ? 1 : 0;
  }
}

// ---- launches

template <class T>
void masked_softmax(const Tensor& scores, double scale, const AttentionMask& mask,
                    const Tensor& weights) {
  const std::int64_t n_q = scores.size(-2), n_k = scores.size(-1);
  const SoftmaxArguments<T> p{scores.data<T>(),
                              static_cast<T>(scale),
                              MaskPattern(mask, n_q, n_k),
                              {mask.mask, scores.shape()},
                              scores.numel() / n_k,
                              weights.data<T>()};
  constexpr int width = pack_width<T>;
  launch(masked_softmax_kernel<T, width>, for_teams(p.n_rows, ceil_div(n_k, width)), p);
}

class CudaSoftmax final : public SoftmaxKernels {
 public:
  void masked_softmax(const Tensor& scores, double scale, const AttentionMask& mask,
                      const Tensor& weights) override {
    if (scores.numel() == 0) return;
    dispatch_real("masked_softmax", scores.dtype(), [&]<class T>(TypeTag<T>) {
      cuda::masked_softmax<T>(scores, scale, mask, weights);
    });
  }

  void softmax_backward(const Tensor& weights, const Tensor& grad, double scale,
                        const Tensor& grad_scores) override {
    if (weights.numel() == 0) return;
    const std::int64_t n_k = weights.size(-1), n_rows = weights.numel() / n_k;
    dispatch_real("softmax_backward", weights.dtype(), [&]<class T>(TypeTag<T>) {
      constexpr int width = pack_width<T>;
      launch(softmax_backward_kernel<T, width>, for_teams(n_rows, ceil_div(n_k, width)),
             weights.data<T>(), grad.data<T>(), scale, n_rows, n_k, grad_scores.data<T>());
    });
  }

  void materialize_mask(const AttentionMask& mask, const Tensor& allowed) override {
    if (allowed.numel() == 0) return;
    const std::int64_t n_q = allowed.size(-2), n_k = allowed.size(-1);
    const std::int64_t n_selected = mask.selected.defined() ? mask.selected.size(-1) : 0;
    const MaskArguments p{MaskPattern(mask, n_q, n_k),
                          {mask.mask, allowed.shape()},
                          {mask.selected, with_last(allowed.shape(), n_selected)},
                          allowed.numel() / n_k,
                          allowed.data<std::uint8_t>()};
    launch(materialize_mask_kernel, for_teams(p.n_rows, n_k), p);
  }
};

}  // namespace
}  // namespace cuda

SoftmaxKernels& cuda_softmax_kernels() { return only<cuda::CudaSoftmax>(); }

}  // namespace mobius
