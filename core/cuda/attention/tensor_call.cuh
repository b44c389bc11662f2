// What the kernels on tensor cores take: a call's operands, rounded to bf16 and laid out in whole
// tiles. Legend: core/ops/attention.h.
#pragma once

#include "core/cuda/attention/fast_conformal.cuh"
#include "core/cuda/attention/fast_score.cuh"
#include "core/round.h"

namespace mobius::cuda {

/// Rows of operands are completed to a multiple: no tile is higher, and all divide it.
constexpr int tensor_row_unit = 128;
/// Threads of a block of each of the kernels.
constexpr int tensor_threads = 128;

/// An operand [B, heads, N, columns], its rows completed to tensor_row_unit and its columns to
/// `width`, with zeros.
struct PackedRows {
  const __nv_bfloat16* data = nullptr;
  int rows = 0, width = 0;

  __device__ const __nv_bfloat16* row(std::int64_t matrix, int i) const {
    return data + (matrix * rows + i) * width;
  }
};

/// What the kernels take besides the score map.
struct TensorCall {
  AttentionProblem<float> problem;
  bool is_softmax;
  PackedRows q, k, v;  // q is multiplied by the factors of the queries
  /// Numbers of keys, [B, G, rows of k], and of distances, [H, ...] with tensor_row_unit zeros
  /// before and behind: whole tiles have them. Null where not given.
  AttentionOperands<const float*> pair_numbers;
};

/// The numbers of query i that are not in its factor.
template <class Map>
__device__ FastNumbers fast_numbers(const FastScore<Map>& score, const AttentionProblem<float>& p,
                                    int b, int h, int i) {
  return query_numbers(score.map, p, b, h, i).numbers;
}

/// Whether a call has numbers of keys or distances.
template <class Map>
__device__ bool has_pair_numbers(const TensorCall& call) {
  constexpr AttentionOperands<NumberUse> uses = Map::uses;
  bool has = false;
  scores::for_each_number(
      [&](const NumberKind& kind, const NumberUse& use, const float* all) {
        if (kind.of != NumberOf::query && use.is_taken && all) has = true;
      },
      uses, call.pair_numbers);
  return has;
}

/// The numbers of keys and distances around one pair.
template <class Map>
class PairNumbers {
 public:
  __device__ PairNumbers(const TensorCall& call, int b, int h, int i, int j) : call_(call) {
    const AttentionProblem<float>& p = call.problem;
    key_ = (b * p.groups + p.group_of(h)) * call.k.rows + j;
    distance_ = h * (2 * tensor_row_unit + p.n_q + p.n_k - 1) + tensor_row_unit + p.n_q - 1 + j - i;
  }
  /// Completes the numbers of a query by those of the pair that is `rows` queries and `columns`
  /// keys further on.
  __device__ FastNumbers with(FastNumbers numbers, int rows, int columns) const {
    constexpr AttentionOperands<NumberUse> uses = Map::uses;
    scores::for_each_number(
        [&](const NumberKind& kind, const NumberUse& use, const float* all, Number<float>& x) {
          if (kind.of == NumberOf::query || !use.is_taken) return;
          const int at = kind.of == NumberOf::key ? key_ + columns : distance_ + columns - rows;
          x.is_given = true;
          x.value = all ? all[at] : static_cast<float>(kind.absent);
        },
        uses, call_.pair_numbers, numbers);
    return numbers;
  }

 private:
  const TensorCall& call_;
  int key_, distance_;  // indices of the pair's; there are fewer than 2^31
};

/// Columns `column` and the next of a row of `n`, as far as they exist.
__device__ inline void store_pair(float* row, int column, int n, float x, float y) {
  float* const to = row + column;
  if (column + 1 < n && reinterpret_cast<std::uintptr_t>(to) % sizeof(float2) == 0) {
    *reinterpret_cast<float2*>(to) = make_float2(x, y);
    return;
  }
  if (column < n) to[0] = x;
  if (column + 1 < n) to[1] = y;
}

}  // namespace mobius::cuda
