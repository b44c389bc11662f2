// The backward pass on tensor cores, by two kernels that each make the weights again: one keeps a
// tile of keys and sums the gradients of keys and values over the queries, one keeps a tile of
// queries and sums theirs over the keys. That is 4 and 3 products of matrices where one kernel with
// atomic additions would take 5, but every sum has a fixed order.
//
// Either way, the kept rows are the rows of a warp's products, so that weights and gradients
// become, in registers, the operands of the products that follow.
#pragma once

#include "core/cuda/attention/pack.cuh"
#include "core/cuda/attention/pair_bits.cuh"
#include "core/cuda/attention/tensor_tile.cuh"
#include "core/cuda/attention/tile_sights.cuh"

namespace mobius::cuda {

struct BackwardCall : TensorCall {
  explicit BackwardCall(const TensorCall& call) : TensorCall(call) {}

  PackedRows grad_out;
  QueryRows rows;
  float *grad_q = nullptr, *grad_k = nullptr, *grad_v = nullptr;  // dense
  AttentionOperands<float*> grad_numbers;                         // dense, null where not wanted
};

/// The sums of a row, for the gradients of its numbers of the given kind.
template <class Map>
__device__ void store_number_sums(NumberOf of, const AttentionOperands<float*>& grads,
                                  const AttentionOperands<float>& sums, std::int64_t row,
                                  bool is_wanted) {
  constexpr AttentionOperands<NumberUse> uses = Map::uses;
  scores::for_each_number(
      [&](const NumberKind& kind, const NumberUse& use, float* grad, float partial) {
        if (kind.of != of || !use.is_taken || use.multiplies_query) return;
        const float sum = warp_sum<4>(partial);
        if (grad && is_wanted && threadIdx.x % 4 == 0) grad[row] = sum;
      },
      uses, grads, sums);
}

/// to += x for the gradients of numbers of the given kind.
template <class Map>
__device__ void add_number_sums(NumberOf of, const AttentionOperands<float>& x,
                                AttentionOperands<float>& to) {
  constexpr AttentionOperands<NumberUse> uses = Map::uses;
  scores::for_each_number(
      [&](const NumberKind& kind, const NumberUse& use, float one, float& sum) {
        if (kind.of == of && use.is_taken && !use.multiplies_query) sum += one;
      },
      uses, x, to);
}

/// What a pass over the elements of a product tile is compiled for. One with numbers of pairs looks
/// at the mask in any case.
template <bool softmax, bool pairs, bool masked>
struct Elements {
  static constexpr bool has_softmax = softmax, has_pairs = pairs, is_masked = masked;
};

/// Calls fn(Elements) for a call and a tile: a choice that all lanes of a warp share.
template <class Map, class Fn>
__device__ void with_elements(const TensorCall& call, bool is_masked, const Fn& fn) {
  if constexpr (takes_pair_numbers<Map>()) {
    if (call.is_softmax && has_pair_numbers<Map>(call)) return fn(Elements<true, true, true>());
    if constexpr (Map::has_weight) {
      if (has_pair_numbers<Map>(call)) return fn(Elements<false, true, true>());
    }
  }
  if constexpr (Map::has_weight) {
    if (!call.is_softmax && is_masked) return fn(Elements<false, false, true>());
    if (!call.is_softmax) return fn(Elements<false, false, false>());
  }
  if (is_masked) return fn(Elements<true, false, true>());
  fn(Elements<true, false, false>());
}

/// A pair under dropout: its weight, which is 0 where it was dropped, and d loss / d product.
/// Unlike the gradient, the weight lacks the factor of those that were kept.
template <class Elements, class Score>
__device__ FastGradient dropped_gradient(const Score& score, const WeightDropout& dropout,
                                         const FastNumbers& numbers, const FastRow& row,
                                         float product, float grad_w, bool is_seen, bool is_kept,
                                         AttentionOperands<float>& grads) {
  if constexpr (!Elements::is_masked)
    return fast_gradient<Elements::has_softmax>(score, numbers, row, product, grad_w, true, grads);
  if (dropout.is_on) grad_w = is_kept ? grad_w * static_cast<float>(dropout.keep) : 0;
  FastGradient pair =
      fast_gradient<Elements::has_softmax>(score, numbers, row, product, grad_w, is_seen, grads);
  if (!is_kept) pair.weight = 0;
  return pair;
}

}  // namespace mobius::cuda
