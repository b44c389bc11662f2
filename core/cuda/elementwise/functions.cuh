// The functions of UnaryOp, of a float or a double. Each is a struct with value(x) and
// derivative(x, y), where y = value(x); a derivative uses y only if the result is exact to the last
// places. What a derivative does not use is not loaded.
#pragma once

#include <cmath>
#include <numbers>
#include <type_traits>

#include "core/cuda/math.cuh"
#include "core/ops/elementwise.h"

namespace mobius::cuda {
namespace functions {

/// A function whose code is short: threads take several elements. A long one is compiled once.
struct Short {
  static constexpr bool is_long = false;
};
struct Long {
  static constexpr bool is_long = true;
};

struct Affine : Short {
  double a, b;

  Affine(double slope, double offset) : a(slope), b(offset) {}
  template <class T>
  __device__ T value(T x) const {
    return std::fma(static_cast<T>(a), x, static_cast<T>(b));
  }
  template <class T>
  __device__ T derivative(T, T) const {
    return static_cast<T>(a);
  }
};

struct Exp : Short {
  template <class T>
  __device__ T value(T x) const {
    return std::exp(x);
  }
  template <class T>
  __device__ T derivative(T, T y) const {
    return y;
  }
};

struct Log : Short {
  template <class T>
  __device__ T value(T x) const {
    return std::log(x);
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    return 1 / x;
  }
};

struct Log1p : Short {
  template <class T>
  __device__ T value(T x) const {
    return std::log1p(x);
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    return 1 / (1 + x);
  }
};

struct Sqrt : Short {
  template <class T>
  __device__ T value(T x) const {
    return std::sqrt(x);
  }
  template <class T>
  __device__ T derivative(T, T y) const {
    return T{0.5} / y;
  }
};

struct Rsqrt : Short {
  template <class T>
  __device__ T value(T x) const {
    return 1 / std::sqrt(x);
  }
  template <class T>
  __device__ T derivative(T, T y) const {
    return T{-0.5} * y * (y * y);
  }
};

struct Reciprocal : Short {
  template <class T>
  __device__ T value(T x) const {
    return 1 / x;
  }
  template <class T>
  __device__ T derivative(T, T y) const {
    return -(y * y);
  }
};

struct Square : Short {
  template <class T>
  __device__ T value(T x) const {
    return x * x;
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    return x + x;
  }
};

/// x^n for a small n, because of the error.
struct IntegerPower : Short {
  static constexpr int largest = 8;
  int n;

  explicit IntegerPower(int exponent) : n(exponent) {}
  template <class T>
  __device__ T value(T x) const {
    return integer_power(x, n);
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    return n == 0 ? T{0} : static_cast<T>(n) * integer_power(x, n - 1);
  }
};

/// x^a, in double: rounding the exponent to f32 would cost |a log x| units. Where 2a is a whole
/// number, f32 goes by squaring, of which the double result keeps more digits than f32 has.
struct Power : Long {
  double a;

  explicit Power(double exponent) : a(exponent) {}
  template <class T>
  __device__ T value(T x) const {
    return static_cast<T>(power(x, a));
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    return static_cast<T>(a * power(x, a - 1));
  }

 private:
  static constexpr double largest_squared = 1000;  // the error stays below 2^10 units of double

  static __device__ double power(double x, double exponent) { return std::pow(x, exponent); }
  static __device__ double power(float x, double exponent) {
    const double base = static_cast<double>(x);
    if (std::nearbyint(2 * exponent) != 2 * exponent || std::abs(exponent) >= largest_squared)
      return std::pow(base, exponent);
    const int whole = static_cast<int>(exponent);
    const double result = integer_power(base, whole);
    if (whole == exponent) return result;
    // `whole` is cut towards 0, so the half that is left has the sign of the exponent.
    return exponent < 0 ? result / std::sqrt(base) : result * std::sqrt(base);
  }
};

struct Sin : Long {
  template <class T>
  __device__ T value(T x) const {
    return std::sin(x);
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    return std::cos(x);
  }
};

struct Cos : Long {
  template <class T>
  __device__ T value(T x) const {
    return std::cos(x);
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    return -std::sin(x);
  }
};

/// The derivative is 4 sigma'(2x): 1 - y^2 would cancel as y approaches 1.
struct Tanh : Short {
  template <class T>
  __device__ T value(T x) const {
    return std::tanh(x);
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    return 4 * logistic(x + x).derivative;
  }
};

struct Sigmoid : Short {
  template <class T>
  __device__ T value(T x) const {
    return logistic(x).value;
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    return logistic(x).derivative;
  }
};

struct Softplus : Short {
  template <class T>
  __device__ T value(T x) const {
    return softplus(x);
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    return logistic(x).value;
  }
};

struct Relu : Short {
  template <class T>
  __device__ T value(T x) const {
    return x < 0 ? T{0} : x;  // keeps NaN
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    return x > 0 ? T{1} : T{0};
  }
};

struct Silu : Short {
  template <class T>
  __device__ T value(T x) const {
    return x * logistic(x).value;
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    const auto s = logistic(x);
    return std::fma(x, s.derivative, s.value);
  }
};

struct Gelu : Short {
  template <class T>
  __device__ T value(T x) const {
    return x * normal_cdf(x);
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    return std::fma(x, normal_density(x), normal_cdf(x));
  }
};

/// x (1 + tanh(z / 2)) / 2 = x sigma(z), z = sqrt(8 / pi) (x + 0.044715 x^3).
struct GeluTanh : Short {
  static constexpr double slope = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  static constexpr double cubic = 0.044715;

  template <class T>
  __device__ T value(T x) const {
    return x * logistic(argument(x)).value;
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    const auto s = logistic(argument(x));
    const T dz = std::fma(static_cast<T>(3 * slope * cubic), x * x, static_cast<T>(slope));
    // sigma' is 0 if x dz would overflow.
    return s.derivative == 0 ? s.value : s.value + s.derivative * x * dz;
  }

 private:
  template <class T>
  static __device__ T argument(T x) {
    return x * std::fma(static_cast<T>(slope * cubic), x * x, static_cast<T>(slope));
  }
};

struct Elu : Short {
  template <class T>
  __device__ T value(T x) const {
    return x > 0 ? x : std::expm1(x);
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    return x > 0 ? T{1} : std::exp(x);
  }
};

struct EluPlusOne : Short {
  template <class T>
  __device__ T value(T x) const {
    return x > 0 ? x + 1 : std::exp(x);
  }
  template <class T>
  __device__ T derivative(T x, T y) const {
    return x > 0 ? T{1} : y;
  }
};

struct Clamp : Short {
  double low, high;

  Clamp(double from, double to) : low(from), high(to) {}
  template <class T>
  __device__ T value(T x) const {
    const T a = static_cast<T>(low), b = static_cast<T>(high);
    const T above = x < a ? a : x;  // comparisons keep NaN
    return above > b ? b : above;
  }
  template <class T>
  __device__ T derivative(T x, T) const {
    return x > static_cast<T>(low) && x < static_cast<T>(high) ? T{1} : T{0};
  }
};

}  // namespace functions

/// Calls fn with the function object of `power`.
template <class Fn>
void with_power(double exponent, Fn&& fn) {
  if (std::nearbyint(exponent) == exponent &&
      std::abs(exponent) <= functions::IntegerPower::largest)
    return fn(functions::IntegerPower(static_cast<int>(exponent)));
  if (exponent == 0.5) return fn(functions::Sqrt());
  fn(functions::Power(exponent));
}

/// Calls fn with the function object of `f`. Only this function switches over the enum.
template <class Fn>
void with_function(const Unary& f, Fn&& fn) {
  switch (f.op) {
    case UnaryOp::affine:
      return fn(functions::Affine(f.a, f.b));
    case UnaryOp::exp:
      return fn(functions::Exp());
    case UnaryOp::log:
      return fn(functions::Log());
    case UnaryOp::log1p:
      return fn(functions::Log1p());
    case UnaryOp::sqrt:
      return fn(functions::Sqrt());
    case UnaryOp::rsqrt:
      return fn(functions::Rsqrt());
    case UnaryOp::reciprocal:
      return fn(functions::Reciprocal());
    case UnaryOp::square:
      return fn(functions::Square());
    case UnaryOp::power:
      return with_power(f.a, fn);
    case UnaryOp::sin:
      return fn(functions::Sin());
    case UnaryOp::cos:
      return fn(functions::Cos());
    case UnaryOp::tanh:
      return fn(functions::Tanh());
    case UnaryOp::sigmoid:
      return fn(functions::Sigmoid());
    case UnaryOp::softplus:
      return fn(functions::Softplus());
    case UnaryOp::relu:
      return fn(functions::Relu());
    case UnaryOp::silu:
      return fn(functions::Silu());
    case UnaryOp::gelu:
      return fn(functions::Gelu());
    case UnaryOp::gelu_tanh:
      return fn(functions::GeluTanh());
    case UnaryOp::elu:
      return fn(functions::Elu());
    case UnaryOp::elu_plus_one:
      return fn(functions::EluPlusOne());
    case UnaryOp::clamp:
      return fn(functions::Clamp(f.a, f.b));
  }
}

}  // namespace mobius::cuda
