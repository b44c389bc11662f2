// Softmax over rows that stay in cache: the largest score, then the exponentials and their sum,
// then the division. Vectorised along the row, rows are shared among threads. A causal row touches
// the keys it sees and zeroes the rest. Sums of f32 run in f32, one per lane. Buffers: dense,
// overwritten (=); an output may be one of the inputs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/softmax.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "core/cpu/kernels.h"
#include "core/cpu/seen_keys.h"
#include "core/cpu/simd/softmax-inl.h"
#include "core/ops/softmax.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

// Returns which of the bytes are not 0, as a mask of f32 or f64 lanes.
template <class D>
HWY_INLINE hn::Mask<D> nonzero_bytes(D d, const std::uint8_t* bytes) {
  const hn::Rebind<std::uint32_t, D> words;
  const auto wide = hn::PromoteTo(words, hn::LoadU(hn::Rebind<std::uint8_t, D>(), bytes));
  const hn::RebindToUnsigned<D> bits;
  if constexpr (sizeof(hn::TFromD<D>) == 8)
    return hn::RebindMask(d, hn::Ne(hn::PromoteTo(bits, wide), hn::Zero(bits)));
  else
    return hn::RebindMask(d, hn::Ne(wide, hn::Zero(bits)));
}

// out[j] = scale * scores[j] if mask[j * stride] is not 0, else -inf.
template <class T>
void hide_masked(const T* scores, const std::uint8_t* mask, std::int64_t stride, std::int64_t n,
                 T scale, T* out) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto lowest = hn::Neg(infinity(d));
  std::int64_t j = 0;
  for (; stride == 1 && j + lanes <= n; j += lanes) {
    const auto score = hn::Mul(hn::Set(d, scale), hn::LoadU(d, scores + j));
    hn::StoreU(hn::IfThenElse(nonzero_bytes(d, mask + j), score, lowest), d, out + j);
  }
  for (; j < n; ++j)
    out[j] = mask[j * stride] ? scale * scores[j] : -std::numeric_limits<T>::infinity();
}

template <class T>
void softmax_row(const T* scores, T scale, std::int64_t n, const SeenKeys::GivenRow& mask,
                 std::int64_t n_k, T* out) {
  if (mask.data) {  // the masked scores, scaled, in the place of the weights
    hide_masked(scores, mask.data, mask.stride, n, scale, out);
    scores = out;
    scale = 1;
  }
  const T shift = largest_scaled(scores, n, scale);
  if (shift == -std::numeric_limits<T>::infinity()) {  // no key is seen; the maximum may drop a NaN
    const bool has_nan = std::any_of(scores, scores + n, [](T x) { return x != x; });
    std::fill(out, out + n_k, has_nan ? std::numeric_limits<T>::quiet_NaN() : T{0});
    return;
  }
  const T sum = exponentials(scores, n, scale, shift, out);
  scale_row(out, n, 1 / sum);
  std::fill(out + n, out + n_k, T{0});
}

template <class T>
void softmax_backward_row(const T* weights, const T* grad, std::int64_t n, T scale, T* out) {
  const T mean = dot_rows(weights, grad, n);
  for_vectors<T>(n, [&](auto d, auto memory, std::int64_t j) HWY_ATTR {
    const auto centred = hn::Sub(memory.load(grad + j), hn::Set(d, mean));
    const auto scaled = hn::Mul(hn::Set(d, scale), memory.load(weights + j));
    memory.store(hn::Mul(scaled, centred), out + j);
  });
}

// Fetches the beginning of a row that follows soon. Causal rows end early, and masked rows are
// written while they are first read; the processor prefetches neither in time.
template <class T>
void prefetch(const T* row, std::int64_t n) {
  constexpr std::int64_t line = 64 / sizeof(T), most = 16 * line;
  for (std::int64_t j = 0; j < std::min(n, most); j += line) hwy::Prefetch(row + j);
}

class CpuSoftmax final : public SoftmaxKernels {
 public:
  void masked_softmax(const Tensor& scores, double scale, const AttentionMask& mask,
                      const Tensor& weights) override {
    if (scores.numel() == 0) return;
    const SeenKeys keys(mask, scores.shape());
    const std::int64_t n_q = scores.size(-2), n_k = scores.size(-1);
    dispatch_real("masked_softmax", scores.dtype(), [&]<class T>(TypeTag<T>) {
      parallel_for(scores.numel() / n_k, row_grain(n_k), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t i = row % n_q, n = keys.pattern().keys_of(i, i + 1).end;
          const SeenKeys::GivenRow given = keys.given(row / n_q, i);
          if (n < n_k || given.data)
            prefetch(scores.data<T>() + std::min(row + 2, end - 1) * n_k, n);
          softmax_row(scores.data<T>() + row * n_k, static_cast<T>(scale), n, given, n_k,
                      weights.data<T>() + row * n_k);
        }
      });
    });
  }

  void softmax_backward(const Tensor& weights, const Tensor& grad, double scale,
                        const Tensor& grad_scores) override {
    if (weights.numel() == 0) return;
    const std::int64_t n_k = weights.size(-1);
    dispatch_real("softmax_backward", weights.dtype(), [&]<class T>(TypeTag<T>) {
      parallel_for_each(weights.numel() / n_k, row_grain(n_k), [&](std::int64_t row) {
        const std::int64_t at = row * n_k;
        softmax_backward_row(weights.data<T>() + at, grad.data<T>() + at, n_k,
                             static_cast<T>(scale), grad_scores.data<T>() + at);
      });
    });
  }

  void materialize_mask(const AttentionMask& mask, const Tensor& allowed) override {
    if (allowed.numel() == 0) return;
    const SeenKeys seen(mask, allowed.shape());
    const std::int64_t n_q = allowed.size(-2), n_k = allowed.size(-1);
    parallel_for_each(allowed.numel() / n_k, row_grain(n_k), [&](std::int64_t row) {
      std::uint8_t* const out = allowed.data<std::uint8_t>() + row * n_k;
      const KeyFlags keys = seen.keys(row / n_q, row % n_q, 0, n_k, out);
      if (!keys.allowed) std::fill(out + keys.lo, out + keys.hi, std::uint8_t{1});
      std::fill(out, out + keys.lo, std::uint8_t{0});
      std::fill(out + keys.hi, out + n_k, std::uint8_t{0});
    });
  }
};

SoftmaxKernels& softmax_kernels() { return only<CpuSoftmax>(); }

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(softmax_kernels);
SoftmaxKernels& cpu_softmax_kernels() { return HWY_DYNAMIC_DISPATCH(softmax_kernels)(); }

}  // namespace mobius
#endif  // HWY_ONCE
