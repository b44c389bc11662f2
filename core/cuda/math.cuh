// Functions that several families of kernels need, for float and double, to a few units in the last
// place. They neither overflow nor cancel where their values do not.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <numbers>

namespace mobius::cuda {

/// The logistic function and its derivative, computed from e^-|x| without overflow or cancellation.
template <class T>
struct Logistic {
  T value;       // 1 / (1 + e^-x)
  T derivative;  // value (1 - value)
};

template <class T>
__device__ Logistic<T> logistic(T x) {
  const T e = std::exp(-std::abs(x));
  const T larger = 1 / (1 + e), smaller = e * larger;
  return {x < 0 ? smaller : larger, smaller * larger};
}

/// log(1 + e^x).
template <class T>
__device__ T softplus(T x) {
  const T above = x < 0 ? T{0} : x;  // keeps NaN
  return above + std::log1p(std::exp(-std::abs(x)));
}

/// The standard normal distribution function.
__device__ inline float normal_cdf(float x) { return ::normcdff(x); }
__device__ inline double normal_cdf(double x) { return ::normcdf(x); }

/// The standard normal density. The square's rounding error, which the exponential would magnify,
/// is made up for.
template <class T>
__device__ T normal_density(T x) {
  constexpr T factor = static_cast<T>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  const T a = std::fmin(std::abs(x), T{40});  // e^-800 is 0 in f64 too
  const T half = a / 2, square = half * a;
  const T lost = std::fma(half, a, -square);
  const T e = std::exp(-square);
  return factor * std::fma(-e, lost, e);
}

/// x^n by repeated squaring. Each squaring doubles the error.
template <class T>
__device__ T integer_power(T x, int n) {
  T result = 1;
  for (int rest = n < 0 ? -n : n; rest != 0; rest >>= 1) {
    if (rest & 1) result *= x;
    x *= x;
  }
  return n < 0 ? 1 / result : result;
}

}  // namespace mobius::cuda
