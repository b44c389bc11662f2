// What the CUDA backend shares with the CPU's kernels compiles for a device: the pattern of a mask,
// and every score map over numbers. Compiled by a test, never run.
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/mask_pattern.h"
#include "core/score_maps/operands.h"

namespace mobius {

#include "core/score_maps/score_maps.inc"

struct Spec {
  ScoreMap score;
  WeightNormalizer normalizer;
  double scale, exponent, log_cap;
  bool causal;
  std::int64_t window, stride, n_global;
};

// A number of a query, or of a key where one is given.
template <class T>
struct Number {
  T value;
  bool is_given;
};

template <class T>
struct ThreadMath {
  __device__ static T constant(double x) { return static_cast<T>(x); }
  __device__ static double epsilon() { return sizeof(T) == 4 ? 1.2e-7 : 2.2e-16; }
  __device__ static bool has(const Number<T>& number) { return number.is_given; }
  __device__ static T of_query(const Number<T>& number) { return number.value; }
  __device__ static T of_key(const Number<T>& number) { return number.value; }
  __device__ static T scale(const Number<T>& number, double c) {
    return constant(c) * number.value;
  }
  __device__ static T exp(T x) { return ::exp(x); }
  __device__ static T log(T x) { return ::log(x); }
  __device__ static T sqrt(T x) { return ::sqrt(x); }
  __device__ static T max(T a, T b) { return a > b ? a : b; }
  __device__ static T mul_add(T a, T b, T c) { return a * b + c; }
  __device__ static void add_to_query(T& grad, T a) { grad += a; }
  __device__ static void add_to_query(T& grad, T a, T b) { grad += a * b; }
  __device__ static void add_to_key(T& grad, T a) { grad += a; }
};

// Forward and backward of one pair of a query and a key.
template <class T, bool kSoftmax, class Map>
__device__ void one_pair(const Map& map, const AttentionOperands<Number<T>>& numbers, T product,
                         T shift, T grad_w, T mean, T* w, T* grad, AttentionOperands<T>& grads) {
  const ThreadMath<T> m;
  if constexpr (map.scales_queries) product *= map.query_factor(m, numbers);
  if constexpr (kSoftmax) {
    *w = m.exp(map.logit(m, numbers, product) - shift);
    *grad = map.gradient(m, numbers, product, softmax_gradient(*w, grad_w, mean), grads);
  } else if constexpr (map.has_weight) {
    *w = map.weight(m, numbers, product);
    *w += map.weight_beside_gradient(m, numbers, product);
    *grad = map.weight_gradient(m, numbers, product, *w * grad_w, grads);
  }
  if constexpr (map.scales_queries) grads.sharpness += map.query_factor_gradient(*grad);
}

template <class T>
__global__ void every_map(Spec spec, AttentionOperands<Number<T>> numbers, const T* x, bool* sees,
                          T* y, AttentionOperands<T>* grads) {
  const std::int64_t i = blockIdx.x, j = threadIdx.x;
  sees[i] = MaskPattern(spec, gridDim.x, blockDim.x).sees(i, j);
  with_score(spec, [&](auto map, auto is_softmax) {
    one_pair<T, is_softmax>(map, numbers, x[0], x[1], x[2], x[3], &y[0], &y[1], *grads);
  });
}

template __global__ void every_map(Spec, AttentionOperands<Number<float>>, const float*, bool*,
                                   float*, AttentionOperands<float>*);
template __global__ void every_map(Spec, AttentionOperands<Number<double>>, const double*, bool*,
                                   double*, AttentionOperands<double>*);

}  // namespace mobius
