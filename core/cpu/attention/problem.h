// The sizes and operands of one attention call, for its kernels.
// Legend: B batch, H query heads, G key/value heads, Nq, Nk, D, Dv as in core/ops/attention.h.
#pragma once

#include <cstdint>

#include "core/cpu/seen_keys.h"
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

/// Rows of a tile: a multiple of the register panels of both instruction sets.
constexpr std::int64_t attention_block_q = 48;
/// Keys of a tile, so few that the products of a tile stay in the first-level cache.
constexpr std::int64_t attention_block_k = 128;

/// Elements of T in the widest vector: rows of scratch memory are padded to a multiple.
template <class T>
constexpr std::int64_t attention_lanes = 64 / static_cast<std::int64_t>(sizeof(T));

/// The elements of a number of attention. That of query i of [B, H, Nq] is at i * stride. Those of
/// the keys of a key/value head, or of the distances of a head, are adjacent, and heads are
/// `stride` apart. T is const for an input.
template <class T>
struct NumberRows {
  T* data = nullptr;
  std::int64_t stride = 0;
};

/// Sizes and operands of one call, with what is laid out anew for the kernel.
template <class T>
struct AttentionProblem {
  AttentionProblem(const AttentionSpec& spec, const AttentionInputs& inputs);

  AttentionSpec spec;
  std::int64_t batch, heads, groups, n_q, n_k, d, dv;
  HeadRows<T> q, k, v;
  SeenKeys seen;
  /// As the score map prepared them. A row of numbers by key or distance has whole tiles, zeros
  /// past the end; its data is null without one. A query always has its numbers.
  AttentionOperands<NumberRows<const T>> numbers;
  NumberRows<const T> query_factors;  // what queries are multiplied by before their products

  std::int64_t key_tiles() const { return ceil_div(n_k, attention_block_k); }
  std::int64_t query_tiles() const { return ceil_div(n_q, attention_block_q); }
  /// Queries with the last tile completed: gradients of padding rows have a place.
  std::int64_t padded_queries() const { return query_tiles() * attention_block_q; }
  /// The length of a row of numbers, with room for a whole tile wherever one starts.
  std::int64_t padded_numbers(NumberOf what) const {
    if (what == NumberOf::query) return n_q;
    return what == NumberOf::key ? key_tiles() * attention_block_k
                                 : n_q + n_k - 1 + attention_block_k;
  }
  std::int64_t group_of(std::int64_t head) const { return head / (heads / groups); }
  /// The number of query i in [B, H, Nq].
  std::int64_t row_of(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return (b * heads + h) * n_q + i;
  }
  T query_factor(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return query_factors.data[row_of(b, h, i) * query_factors.stride];
  }

 private:
  AttentionInputs laid_out_;
  Tensor factors_;
};

}  // namespace mobius
