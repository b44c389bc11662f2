// The score maps over the numbers of one thread, and what the passes make of a product <q_i, k_j>:
// the weight of one pair and the gradients behind it, and the factors of dropout.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/cuda/attention/problem.cuh"
#include "core/rng.h"
#include "core/score_maps/score_maps.h"

namespace mobius::cuda {

/// A number of attention at one pair of a query and a key.
template <class T>
struct Number {
  T value = 0;
  bool is_given = false;
};

/// The arithmetic `m` of the score maps (core/score_maps/score_maps.inc).
template <class T>
struct ScoreMath {
  __device__ static T constant(double x) { return static_cast<T>(x); }
  __device__ static double epsilon() { return std::numeric_limits<T>::epsilon(); }
  __device__ static bool has(const Number<T>& number) { return number.is_given; }
  __device__ static T of_query(const Number<T>& number) { return number.value; }
  __device__ static T of_key(const Number<T>& number) { return number.value; }
  __device__ static Number<T> scale(const Number<T>& number, double factor) {
    return {constant(factor) * number.value, number.is_given};
  }
  __device__ static Number<T> exp(const Number<T>& number) {
    return {::exp(number.value), number.is_given};
  }
  __device__ static T exp(T x) { return ::exp(x); }
  __device__ static T log(T x) { return ::log(x); }
  __device__ static T sqrt(T x) { return ::sqrt(x); }
  __device__ static T max(T a, T b) { return a > b ? a : b; }
  __device__ static T mul_add(T a, T b, T c) { return ::fma(a, b, c); }
  __device__ static void add_to_query(T& grad, T a) { grad += a; }
  __device__ static void add_to_query(T& grad, T a, T b) { grad = ::fma(a, b, grad); }
  __device__ static void add_to_key(T& grad, T a) { grad += a; }
};

/// Map::uses, whose address only the host has.
template <class Map>
__device__ constexpr AttentionOperands<NumberUse> number_uses() {
  return Map::uses;
}

/// The numbers of one query, and what its products are multiplied by.
template <class T>
struct QueryNumbers {
  AttentionOperands<Number<T>> numbers;  // as the score map prepared them; those of keys are unset
  T factor = 1;
};

/// The numbers that `Map` takes of query i of a head. An i past the last gives the absent ones.
template <class T, class Map>
__device__ QueryNumbers<T> query_numbers(const Map& map, const AttentionProblem<T>& p, int b, int h,
                                         int i) {
  QueryNumbers<T> query;
  scores::for_each_number(
      [&](const NumberKind& kind, const NumberUse& use, const T* all, Number<T>& x) {
        if (kind.of != NumberOf::query || !use.is_taken) return;
        x.is_given = all != nullptr;
        x.value = all && i < p.n_q ? all[p.row_of(b, h, i)] : static_cast<T>(kind.absent);
      },
      number_uses<Map>(), p.numbers, query.numbers);
  map.prepare(ScoreMath<T>(), query.numbers);
  if constexpr (Map::scales_queries)
    query.factor = map.query_factor(ScoreMath<T>(), query.numbers).value;
  return query;
}

/// The numbers of a query, completed by those of the pair with key j; both exist.
template <class Map, class T>
__device__ AttentionOperands<Number<T>> pair_numbers(const AttentionProblem<T>& p,
                                                     const QueryNumbers<T>& query, int b, int h,
                                                     int i, int j) {
  AttentionOperands<Number<T>> numbers = query.numbers;
  scores::for_each_number(
      [&](const NumberKind& kind, const NumberUse& use, const T* all, Number<T>& x) {
        if (kind.of == NumberOf::query || !use.is_taken || !all) return;
        const std::int64_t at =
            kind.of == NumberOf::key ? p.key_of(b, p.group_of(h), j) : p.distance_of(h, i, j);
        x = {all[at], true};
      },
      number_uses<Map>(), p.numbers, numbers);
  return numbers;
}

/// What the weights of a row are made with: with a softmax the log of their sum, and the mean
/// sum_j w_j d loss / d w_j; without one the largest weight.
template <class T>
struct RowWeights {
  T lse, mean, largest;
};

/// The logit of a pair that is seen, under a softmax, from dot = <q_i, k_j>.
template <class Map, class T>
__device__ T pair_logit(const Map& map, const QueryNumbers<T>& query,
                        const AttentionOperands<Number<T>>& numbers, T dot) {
  return map.logit(ScoreMath<T>(), numbers, query.factor * dot);
}

/// The weight of a pair that is seen, without a softmax.
template <class Map, class T>
__device__ T pair_weight(const Map& map, const QueryNumbers<T>& query,
                         const AttentionOperands<Number<T>>& numbers, T largest, T dot) {
  const T w = map.weight(ScoreMath<T>(), numbers, query.factor * dot);
  return w < largest ? w : largest;
}

/// The weight of a pair, and d loss / d <q_i, k_j>.
template <class T>
struct PairGradient {
  T weight, grad_dot;
};

/// The same for a pair that is seen, given d loss / d weight. Adds to the gradients of the numbers;
/// where they are in the factors of the queries, query_factor_gradient() is still to follow.
template <bool kSoftmax, class Map, class T>
__device__ PairGradient<T> pair_gradient(const Map& map, const QueryNumbers<T>& query,
                                         const AttentionOperands<Number<T>>& numbers,
                                         const RowWeights<T>& row, T dot, T grad_w,
                                         AttentionOperands<T>& grads) {
  const ScoreMath<T> m;
  const T product = query.factor * dot;
  T w, grad_product;
  if constexpr (kSoftmax) {
    w = m.exp(map.logit(m, numbers, product) - row.lse);
    grad_product =
        map.gradient(m, numbers, product, scores::softmax_gradient(w, grad_w, row.mean), grads);
  } else {
    const T uncapped = map.weight_beside_gradient(m, numbers, product);
    w = uncapped < row.largest ? uncapped : row.largest;
    const T passes = uncapped <= row.largest ? w : T{0};
    grad_product = map.weight_gradient(m, numbers, product, passes * grad_w, grads);
  }
  scores::for_each_number(
      [&](const NumberKind&, const NumberUse& use, T& grad) {
        if (use.multiplies_query) m.add_to_query(grad, grad_product, dot);
      },
      number_uses<Map>(), grads);
  return {w, query.factor * grad_product};
}

/// Word `at` of a block.
__device__ inline std::uint32_t word_of(const std::array<std::uint32_t, 4>& words, unsigned at) {
  const std::uint32_t low = at == 0 ? words[0] : words[1], high = at == 2 ? words[2] : words[3];
  return at < 2 ? low : high;
}

/// The factors of the n <= 4 weights from number `first`: 0 or 1 / (1 - rate).
template <int n, class T>
__device__ void dropout_factors(const WeightDropout& dropout, std::uint64_t first,
                                T (&factors)[n]) {
  static_assert(n <= 4, "they lie in two blocks at most");
  const unsigned offset = static_cast<unsigned>(first % 4);
  const std::array<std::uint32_t, 4> words = philox(dropout.key, first / 4);
  std::array<std::uint32_t, 4> next = words;
  if (offset + n > 4) next = philox(dropout.key, first / 4 + 1);
#pragma unroll
  for (unsigned s = 0; s < n; ++s) {
    const unsigned at = offset + s;
    const std::uint32_t word = at < 4 ? word_of(words, at) : word_of(next, at - 4);
    factors[s] = word < dropout.limit ? T{0} : static_cast<T>(dropout.keep);
  }
}

}  // namespace mobius::cuda
