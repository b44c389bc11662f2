// One tile of queries against one tile of keys: what the forward and the backward pass share.
//
// Included once per instruction set, between HWY_BEFORE_NAMESPACE() and HWY_AFTER_NAMESPACE() of
// its own (Highway's convention for -inl.h files).
#if defined(MOBIUS_CORE_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOBIUS_CORE_CPU_ATTENTION_TILE_INL_H_
#undef MOBIUS_CORE_CPU_ATTENTION_TILE_INL_H_
#else
#define MOBIUS_CORE_CPU_ATTENTION_TILE_INL_H_
#endif

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cmath>

#include "core/cpu/attention_rows-inl.h"
#include "core/cpu/tile_gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

/// Zeroed, aligned scratch memory of n elements.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t n) : data_(hwy::AllocateAligned<T>(static_cast<std::size_t>(n))) {
    std::fill(data_.get(), data_.get() + n, T{0});
  }
  T* data() { return data_.get(); }
  T* row(std::int64_t i, std::int64_t width) { return data_.get() + i * width; }

 private:
  hwy::AlignedFreeUniquePtr<T[]> data_;
};

/// to[rows, width] = factor * source rows (n columns); rows past `count` are 0.
template <class T>
void copy_rows(const T* source, std::int64_t stride, std::int64_t count, std::int64_t n, T factor,
               T* to, std::int64_t width) {
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t c = 0; c < n; ++c) to[i * width + c] = factor * source[i * stride + c];
  }
  std::fill(to + count * width, to + attention_block_q * width, T{0});
}

/// A query tile [i0, i1) of one head against the key tile that starts at j0.
struct TilePosition {
  std::int64_t b, h, i0, i1, j0;
};

template <class T>
DotScore<T> make_score(const AttentionProblem<T>& p, const TilePosition& at, std::int64_t i,
                       TypeTag<DotScore<T>>) {
  DotScore<T> score{nullptr, nullptr};
  if (p.key_bias.defined()) {
    const std::int64_t bg = at.b * p.groups + p.group_of(at.h);
    score.key_bias = p.key_bias.template data<T>() + bg * p.key_bias.size(1) + at.j0;
  }
  if (p.distance_bias.defined()) {
    score.distance_bias =
        p.distance_bias.template data<T>() + at.h * p.distance_bias.size(1) + at.j0 - i + p.n_q - 1;
  }
  return score;
}

template <class T>
ConformalScore<T> make_score(const AttentionProblem<T>& p, const TilePosition& at, std::int64_t i,
                             TypeTag<ConformalScore<T>>) {
  const std::int64_t row = (at.b * p.heads + at.h) * p.n_q + i;
  const auto s = static_cast<T>(p.spec.exponent);
  const T g = p.log_factor ? p.log_factor[row] : T{0};
  const double twice = 2 * p.spec.exponent;
  const bool is_whole = twice == std::floor(twice) && twice < 1e6;
  return {p.curvature[row], s, std::exp(g / s), g, is_whole ? static_cast<unsigned>(twice) : 0u};
}

/// Factors of the weights of one row of a tile under dropout: 0 or 1 / (1 - rate). The number of
/// weight (b, h, i, j) is its index in [B, H, Nq, Nk], whatever the tiling.
template <class T>
void dropout_row(const AttentionProblem<T>& p, const TilePosition& at, std::int64_t i,
                 std::int64_t width, T* factors) {
  const auto keep = static_cast<T>(1 / (1 - p.spec.dropout));
  const auto limit = static_cast<std::uint32_t>(p.spec.dropout * 4294967296.0);
  const auto first =
      static_cast<std::uint64_t>(((at.b * p.heads + at.h) * p.n_q + i) * p.n_k + at.j0);
  std::uint64_t block = ~std::uint64_t{0};
  std::array<std::uint32_t, 4> words{};
  for (std::int64_t j = 0; j < width; ++j) {
    const std::uint64_t index = first + static_cast<std::uint64_t>(j);
    if (index / 4 != block) {
      block = index / 4;
      words = philox(p.spec.dropout_key, block);
    }
    factors[j] = words[index % 4] < limit ? T{0} : keep;
  }
}

template <class T>
void multiply_row(const T* factors, std::int64_t width, T* row) {
  const Lanes<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < width; j += lanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, factors + j), hn::LoadU(d, row + j)), d, row + j);
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
