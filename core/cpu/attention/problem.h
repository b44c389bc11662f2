// One attention call seen by its kernels: sizes, addresses, and which keys a query sees.
// Legend: B batch, H query heads, G key/value heads, Nq, Nk, D, Dv as in core/ops/attention.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/cpu/rows.h"
#include "core/ops/attention.h"
#include "core/round.h"

namespace mobius {

/// Rows of a [B, H, N, D] view.
template <class T>
struct HeadRows {
  T* data = nullptr;
  std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0;

  HeadRows() = default;
  explicit HeadRows(const Tensor& x)
      : data(x.data<T>()),
        batch_stride(x.stride(0)),
        head_stride(x.stride(1)),
        row_stride(x.stride(2)) {}
  T* row(std::int64_t batch, std::int64_t head, std::int64_t i) const {
    return data + batch * batch_stride + head * head_stride + i * row_stride;
  }
};

/// The keys of one tile [begin, end) that one query sees: those in [lo, hi), and among them those
/// whose allowed[j - begin] is not 0 (all of them when `allowed` is null).
struct TileKeys {
  std::int64_t lo, hi;
  const std::uint8_t* allowed;
};

/// Which keys each query sees, tile by tile: an AttentionMask as the fused kernels read it.
class Visibility {
 public:
  Visibility(const AttentionMask& mask, const Shape& scores)
      : mask_(mask), shift_(scores[3] - scores[2]), n_k_(scores[3]) {
    mask_.window = std::min(mask_.window, scores[2] + scores[3]);  // no distance is larger
    if (!mask.mask.defined()) return;
    given_ = mask.mask.expand(scores);
    bytes_ = given_.data<std::uint8_t>();
  }

  /// First and last + 1 key that any query in [i0, i1) may see: keys outside can be skipped.
  std::int64_t first_key(std::int64_t i0) const {
    return is_band() ? std::clamp<std::int64_t>(i0 + shift_ - mask_.window + 1, 0, n_k_) : 0;
  }
  std::int64_t end_key(std::int64_t i1) const {
    const std::int64_t last = i1 - 1 + shift_;  // position of the last query
    std::int64_t end = n_k_;
    if (mask_.causal)
      end = last + 1;
    else if (is_band())
      end = last + mask_.window;
    return std::clamp<std::int64_t>(end, 0, n_k_);
  }
  /// First and last + 1 query that may see any key in [j0, j1).
  std::int64_t first_query(std::int64_t j0, std::int64_t n_q) const {
    std::int64_t first = 0;
    if (mask_.causal)
      first = j0 - shift_;
    else if (is_band())
      first = j0 - shift_ - mask_.window + 1;
    return std::clamp<std::int64_t>(first, 0, n_q);
  }
  std::int64_t end_query(std::int64_t j1, std::int64_t n_q) const {
    return is_band() ? std::clamp<std::int64_t>(j1 - 1 - shift_ + mask_.window, 0, n_q) : n_q;
  }

  /// The keys of tile [j0, j1) that query i sees; `bytes` has room for j1 - j0 flags.
  TileKeys keys(std::int64_t batch, std::int64_t head, std::int64_t i, std::int64_t j0,
                std::int64_t j1, std::uint8_t* bytes) const {
    const std::int64_t p = i + shift_;
    TileKeys keys{j0, j1, nullptr};
    if (mask_.causal) keys.hi = std::clamp(p + 1, j0, j1);
    if (is_band()) {
      keys.lo = std::clamp(p - mask_.window + 1, j0, j1);
      keys.hi = std::clamp(p + mask_.window, keys.lo, keys.hi);
    }
    const bool is_sparse = mask_.window > 0 && !is_band();
    if (!bytes_ && !is_sparse) return keys;
    for (std::int64_t j = j0; j < j1; ++j) bytes[j - j0] = 1;
    if (is_sparse) {
      for (std::int64_t j = keys.lo; j < keys.hi; ++j) bytes[j - j0] = mask_.pattern_sees(p, j);
    }
    if (bytes_) {
      const std::int64_t at =
          batch * given_.stride(0) + head * given_.stride(1) + i * given_.stride(2);
      for (std::int64_t j = keys.lo; j < keys.hi; ++j)
        bytes[j - j0] &= bytes_[at + j * given_.stride(3)] != 0;
    }
    keys.allowed = bytes;
    return keys;
  }

 private:
  bool is_band() const { return mask_.window > 0 && mask_.stride == 0 && mask_.n_global == 0; }
  AttentionMask mask_;
  std::int64_t shift_, n_k_;
  Tensor given_;
  const std::uint8_t* bytes_ = nullptr;
};

/// Rows of a tile: a multiple of the register panels of both instruction sets.
constexpr std::int64_t attention_block_q = 48;
/// Keys of a tile: with it the products of a tile stay in the first-level cache.
constexpr std::int64_t attention_block_k = 128;

/// Elements of T in the widest vector: rows of scratch memory are padded to a multiple.
template <class T>
constexpr std::int64_t attention_lanes = 64 / static_cast<std::int64_t>(sizeof(T));

/// Sizes and operands of one call, with what is laid out anew for the kernel.
template <class T>
struct AttentionProblem {
  AttentionProblem(const AttentionSpec& spec, const AttentionInputs& inputs);

  AttentionSpec spec;
  std::int64_t batch, heads, groups, n_q, n_k, d, dv;
  HeadRows<T> q, k, v;
  Visibility visibility;
  Tensor key_bias;          // [B G, tiles * block_k], zeros past the end; undefined without one
  Tensor distance_bias;     // [H, Nq + Nk - 1 + block_k], likewise
  const T* sharpness;       // [B, H, Nq], or null
  unsigned twice_exponent;  // 2s of the conformal map where that is a whole number, else 0
  // b_i = e^(g_i / s) where powers are taken by products, else g_i: with a small s, b_i would leave
  // the range of f32. [B, H, Nq]; undefined without log factors.
  Tensor factor_of_query;
  const T* factor;               // its elements, or null
  T cap;                         // largest weight without a softmax
  const T* threshold;            // [B, H, Nq], or null
  const std::int64_t* last_key;  // [B, H, Nq], or null

  std::int64_t key_tiles() const { return ceil_div(n_k, attention_block_k); }
  std::int64_t query_tiles() const { return ceil_div(n_q, attention_block_q); }
  /// Queries with the last tile completed: gradients of padding rows have a place.
  std::int64_t padded_queries() const { return query_tiles() * attention_block_q; }
  std::int64_t group_of(std::int64_t head) const { return head / (heads / groups); }
  /// Of query i in [B, H, Nq].
  std::int64_t row_of(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return (b * heads + h) * n_q + i;
  }
  /// By which query i is multiplied before its products.
  T query_factor(std::int64_t b, std::int64_t h, std::int64_t i) const {
    if (spec.score == ScoreMap::conformal) return 1;
    const auto scale = static_cast<T>(spec.scale);
    return sharpness ? scale * sharpness[row_of(b, h, i)] : scale;
  }
};

}  // namespace mobius
