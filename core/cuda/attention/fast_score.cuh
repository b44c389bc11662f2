// The score maps in arithmetic that is as exact as bf16 products need: powers and logarithms of
// base 2 and inverses by the special function units. Any map has this form from its text in
// core/score_maps/; one that is faster in a form of its own specialises FastScore in a file of its
// own: fast_conformal.cuh.
#pragma once

#include "core/cuda/attention/mma.cuh"
#include "core/cuda/attention/score_math.cuh"

namespace mobius::cuda {

constexpr float log2_e = 1.44269504f, ln_2 = 0.69314718f;

/// A float with fast arithmetic.
struct Fast {
  float x;

  friend __device__ Fast operator+(Fast a, Fast b) { return {a.x + b.x}; }
  friend __device__ Fast operator-(Fast a, Fast b) { return {a.x - b.x}; }
  friend __device__ Fast operator*(Fast a, Fast b) { return {a.x * b.x}; }
  friend __device__ Fast operator/(Fast a, Fast b) { return {a.x * fast_inverse(b.x)}; }
};

/// The arithmetic `m` of the score maps (core/score_maps/score_maps.inc).
struct FastMath {
  __device__ static Fast constant(double x) { return {static_cast<float>(x)}; }
  __device__ static double epsilon() { return std::numeric_limits<float>::epsilon(); }
  __device__ static bool has(const Number<float>& number) { return number.is_given; }
  __device__ static Fast of_query(const Number<float>& number) { return {number.value}; }
  __device__ static Fast of_key(const Number<float>& number) { return {number.value}; }
  __device__ static Fast exp(Fast a) { return {fast_exp2(log2_e * a.x)}; }
  __device__ static Fast log(Fast a) { return {ln_2 * fast_log2(a.x)}; }
  __device__ static Fast sqrt(Fast a) { return {fast_sqrt(a.x)}; }
  __device__ static Fast max(Fast a, Fast b) { return {fmaxf(a.x, b.x)}; }
  __device__ static Fast mul_add(Fast a, Fast b, Fast c) { return {fmaf(a.x, b.x, c.x)}; }
  __device__ static void add_to_query(float& grad, Fast a) { grad += a.x; }
  __device__ static void add_to_query(float& grad, Fast a, Fast b) { grad = fmaf(a.x, b.x, grad); }
  __device__ static void add_to_key(float& grad, Fast a) { grad += a.x; }
};

/// The numbers of one pair, or of one query where a map takes none of keys.
using FastNumbers = AttentionOperands<Number<float>>;

/// A weight, and d loss / d product.
struct FastGradient {
  float weight, grad_product;
};

/// Any map, from its text.
template <class Map>
class GenericFastScore {
 public:
  explicit GenericFastScore(const AttentionSpec& spec)
      : map(spec), largest_(static_cast<float>(std::exp(spec.log_cap))) {}

  /// What the forward pass reads of a query.
  using Query = FastNumbers;
  __device__ Query query(const FastNumbers& numbers) const { return numbers; }
  __device__ const FastNumbers& numbers(const Query& query) const { return query; }

  /// A weight under a softmax is 2^(unit() logit()), up to a factor.
  __device__ float unit() const { return log2_e; }
  __device__ float logit(const FastNumbers& numbers, float product) const {
    return map.logit(FastMath(), numbers, Fast{product}).x;
  }
  /// A weight without a softmax. Forms that use the special function units twice may spare them for
  /// some of the elements, which are numbered, where they would be the bottleneck.
  template <bool kSparesSpecial>
  __device__ float weight(const Query& query, float product, int /*element*/) const {
    return fminf(map.weight(FastMath(), query, Fast{product}).x, largest_);
  }

  /// As map.weight_beside_gradient(), uncapped.
  __device__ Fast uncapped_weight(const FastNumbers& numbers, Fast product) const {
    return map.weight_beside_gradient(FastMath(), numbers, product);
  }
  __device__ float largest() const { return largest_; }

  Map map;

 private:
  float largest_;
};

template <class Map>
struct FastScore : GenericFastScore<Map> {
  using GenericFastScore<Map>::GenericFastScore;
};

/// What the backward pass knows of the weights of a row.
struct FastRow {
  float log2_sum;  // the binary logarithm of the sum of the weights, of a softmax
  float mean;      // sum_j w_j d loss / d w_j, of a softmax
};

/// The weight of a pair and d loss / d product, given d loss / d weight: 0 for a pair that is not
/// seen. Adds to the gradients of the numbers.
template <bool kSoftmax, class Score>
__device__ FastGradient fast_gradient(const Score& score, const FastNumbers& numbers,
                                      const FastRow& row, float product, float grad_w, bool is_seen,
                                      AttentionOperands<float>& grads) {
  const FastMath m;
  const Fast u{product};
  if constexpr (kSoftmax) {
    const float e = fast_exp2(fmaf(score.logit(numbers, product), score.unit(), -row.log2_sum));
    const float w = is_seen ? e : 0;
    const Fast grad_logit{scores::softmax_gradient(w, grad_w, row.mean)};
    return {w, score.map.gradient(m, numbers, u, grad_logit, grads).x};
  } else {
    const float any = score.uncapped_weight(numbers, u).x, uncapped = is_seen ? any : 0;
    const float passes = uncapped <= score.largest() ? uncapped : 0;
    const Fast grad_log{passes * grad_w};
    return {fminf(uncapped, score.largest()),
            score.map.weight_gradient(m, numbers, u, grad_log, grads).x};
  }
}

/// Whether a map takes a number of the given kind that is not folded into the queries.
template <class Map>
constexpr bool takes_numbers_of(NumberOf of) {
  bool takes = false;
  scores::for_each_number(
      [&](const NumberKind& kind, const NumberUse& use) {
        if (kind.of == of && use.is_taken && !use.multiplies_query) takes = true;
      },
      Map::uses);
  return takes;
}
/// Whether a map takes numbers of keys or distances.
template <class Map>
constexpr bool takes_pair_numbers() {
  return takes_numbers_of<Map>(NumberOf::key) || takes_numbers_of<Map>(NumberOf::distance);
}

}  // namespace mobius::cuda
