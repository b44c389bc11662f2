// An AttentionMask as the kernels read it: which keys a query sees, of a run of keys or of a tile.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/mask_pattern.h"
#include "core/ops/attention_mask.h"

namespace mobius::cuda {

/// How much of a tile of queries and keys is seen. `some` may turn out to be nothing or all.
enum class Sight { none, some, all };

/// Bits [begin, end) of a word, where they lie in it.
__device__ inline std::uint32_t bits_between(std::int64_t begin, std::int64_t end) {
  begin = begin < 0 ? 0 : begin;
  end = end > 32 ? 32 : end;
  return end <= begin ? 0u : (~0u >> (32 - (end - begin))) << begin;
}

/// Which keys each query sees, by value. The tensors of the mask must outlive its use.
class KeyMask {
 public:
  /// For scores [B, H, Nq, Nk], to which the tensors of the mask are broadcast.
  KeyMask(const AttentionMask& mask, const Shape& scores) : pattern_(mask, scores[2], scores[3]) {
    if (mask.mask.defined()) given_ = Rows<std::uint8_t>(mask.mask.expand(scores));
    if (!mask.selected.defined()) return;
    n_selected_ = mask.selected.size(-1);
    selected_ =
        Rows<std::int32_t>(mask.selected.expand({scores[0], scores[1], scores[2], n_selected_}));
  }

  /// keys_of() and queries_of(): which tiles to visit.
  __host__ __device__ const MaskPattern& pattern() const { return pattern_; }

  /// Whether the mask is its pattern alone.
  __device__ bool is_pattern() const { return !given_.data && !selected_.data; }

  /// What the pattern tells about queries [i0, i1) and keys [j0, j1), which may pass the last ones.
  __device__ Sight tile(std::int64_t i0, std::int64_t i1, std::int64_t j0, std::int64_t j1) const {
    const std::int64_t last_query = i1 < pattern_.n_q ? i1 : pattern_.n_q;
    if (last_query <= i0) return Sight::none;
    const IndexRange keys = pattern_.keys_of(i0, last_query);
    if (keys.end <= j0 || j1 <= keys.begin) return Sight::none;
    if (given_.data || selected_.data || i1 > pattern_.n_q || j1 > pattern_.n_k) return Sight::some;
    if (pattern_.causal && j1 - 1 > pattern_.position(i0)) return Sight::some;
    const bool in_window = pattern_.position(i1 - 1) - j0 < pattern_.window &&
                           j1 - 1 - pattern_.position(i0) < pattern_.window;
    return pattern_.window == 0 || in_window || j1 <= pattern_.n_global ? Sight::all : Sight::some;
  }

  /// Which of the keys [j0, j0 + 32) query i of a head sees: bit b is key j0 + b. None for an i or
  /// keys past the last.
  __device__ std::uint32_t word(std::int64_t b, std::int64_t h, std::int64_t i,
                                std::int64_t j0) const {
    if (i >= pattern_.n_q) return 0;
    const IndexRange keys = pattern_.keys_of(i, i + 1);
    std::uint32_t seen = bits_between(keys.begin - j0, keys.end - j0);
    if (selected_.data && seen) seen &= selected_word(b, h, i, j0);
    if (!pattern_.is_contiguous()) {
      seen = bits_where(seen, [&](int bit) { return pattern_.sees(i, j0 + bit); });
    }
    if (given_.data && seen) {
      const std::uint8_t* const row = given_.row(b, h, i);
      seen = bits_where(seen, [&](int bit) { return row[(j0 + bit) * given_.stride] != 0; });
    }
    return seen;
  }

 private:
  // The rows of a tensor [B, H, Nq, n]; `data` is null without one.
  template <class T>
  struct Rows {
    const T* data = nullptr;
    std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0, stride = 0;

    Rows() = default;
    explicit Rows(const Tensor& x)
        : data(x.data<T>()),
          batch_stride(x.stride(0)),
          head_stride(x.stride(1)),
          row_stride(x.stride(2)),
          stride(x.stride(3)) {}
    __device__ const T* row(std::int64_t b, std::int64_t h, std::int64_t i) const {
      return data + b * batch_stride + h * head_stride + i * row_stride;
    }
  };

  // The bits of `word` that `holds` confirms.
  template <class Holds>
  __device__ static std::uint32_t bits_where(std::uint32_t word, Holds&& holds) {
    std::uint32_t result = 0;
    for (std::uint32_t rest = word; rest != 0; rest &= rest - 1) {
      const int bit = __ffs(static_cast<int>(rest)) - 1;
      if (holds(bit)) result |= 1u << bit;
    }
    return result;
  }

  // Selected keys ascend; those past the last key close a row.
  __device__ std::uint32_t selected_word(std::int64_t b, std::int64_t h, std::int64_t i,
                                         std::int64_t j0) const {
    const std::int32_t* const row = selected_.row(b, h, i);
    std::int64_t at = 0;
    for (std::int64_t end = n_selected_; at < end;) {
      const std::int64_t middle = (at + end) / 2;
      if (row[middle * selected_.stride] < j0)
        at = middle + 1;
      else
        end = middle;
    }
    std::uint32_t seen = 0;
    for (; at < n_selected_; ++at) {
      const std::int64_t key = row[at * selected_.stride];
      if (key >= j0 + 32) break;
      seen |= 1u << (key - j0);
    }
    return seen;
  }

  MaskPattern pattern_;
  Rows<std::uint8_t> given_;
  Rows<std::int32_t> selected_;
  std::int64_t n_selected_ = 0;
};

}  // namespace mobius::cuda
