// The conformal map on tensor cores.
//
// A weight is 2^(c - s log2 a), for any exponent: fewer issued instructions than softmax has for
// its maximum, sum and rescaling, but two results of the special function units, which give 16 a
// clock and multiprocessor. With narrow rows, where those would take longer than all else, one
// power in eight is a polynomial instead, which stays within 5 % of the instructions of softmax.
// With h = a / 2 = 1/2 - t <q, k> / 2 one saturating instruction gives h in [0, 1]; where rounding
// carries a to 0, the weight is that of a = epsilon / 2, as a cap of the row that the cap of all
// weights is merged with.
#pragma once

#include "core/cuda/attention/fast_score.cuh"

namespace mobius::cuda {

template <>
class FastScore<scores::ConformalScore> : public GenericFastScore<scores::ConformalScore> {
 public:
  explicit FastScore(const AttentionSpec& spec)
      : GenericFastScore(spec),
        exponent_(static_cast<float>(spec.exponent)),
        log2_cap_(static_cast<float>(spec.log_cap) * log2_e) {
    map.twice_exponent = 0;  // powers by logarithms, in the backward pass too
  }

  struct Query {
    float minus_half_t, log2_factor, log2_cap;
  };
  __device__ Query query(const FastNumbers& numbers) const {
    const float g = numbers.log_factor.value * log2_e;
    return {-0.5f * numbers.sharpness.value, g - exponent_,
            fminf(log2_cap_, g - exponent_ * log2_of_least_distance)};
  }
  /// Those that logits take.
  __device__ FastNumbers numbers(const Query& query) const {
    FastNumbers numbers;
    numbers.sharpness = {-2 * query.minus_half_t, true};
    return numbers;
  }

  __device__ float unit() const { return exponent_; }
  __device__ float logit(const FastNumbers& numbers, float product) const {
    return -fast_log2(distance(numbers, product));
  }
  template <bool kSparesSpecial>
  __device__ float weight(const Query& query, float product, int element) const {
    const float half = saturated_mul_add(product, query.minus_half_t, 0.5f);
    const float log2_weight = fmaf(-exponent_, fast_log2(half), query.log2_factor);
    const float capped = fminf(log2_weight, query.log2_cap);
    return kSparesSpecial && element % 8 == 3 ? polynomial_exp2(capped) : fast_exp2(capped);
  }

  __device__ Fast uncapped_weight(const FastNumbers& numbers, Fast product) const {
    const float log2_factor = numbers.log_factor.value * log2_e;
    return {fast_exp2(fmaf(-exponent_, fast_log2(distance(numbers, product.x)), log2_factor))};
  }

 private:
  __device__ static float distance(const FastNumbers& numbers, float product) {
    return fmaxf(1 - numbers.sharpness.value * product, least_distance);
  }
  /// 2^x to 1e-4, which bf16 does not tell from 2^x, without the special function units: x - n in
  /// [-1/2, 1/2] by a polynomial, and n into the exponent.
  __device__ static float polynomial_exp2(float x) {
    constexpr float to_integer = 0x1.8p23f;  // adding it rounds to whole numbers
    const float shifted = fmaxf(x, -126) + to_integer;
    const float f = fmaxf(x, -126) - (shifted - to_integer);
    const float p = fmaf(fmaf(fmaf(0.05517168f, f, 0.24261117f), f, 0.69326099f), f, 0.99992807f);
    return __int_as_float(__float_as_int(p) + (__float_as_int(shifted) << 23));
  }

  static constexpr float least_distance = 0x1p-24f, log2_of_least_distance = -24;  // epsilon / 2

  float exponent_, log2_cap_;
};

}  // namespace mobius::cuda
