// The functions of UnaryOp on Highway vectors: one struct each, with value(d, x) and its derivative
// derivative(d, x, y), y = value(d, x), side by side. A derivative takes y only where that is exact
// to the last places; the driver does not load what it does not take.
//
// Included once per instruction set (Highway's convention for -inl.h files).
#if defined(MOBIUS_CORE_CPU_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOBIUS_CORE_CPU_FUNCTIONS_INL_H_
#undef MOBIUS_CORE_CPU_FUNCTIONS_INL_H_
#else
#define MOBIUS_CORE_CPU_FUNCTIONS_INL_H_
#endif

#include <cmath>
#include <cstdlib>
#include <numbers>

#include "core/cpu/simd/math-inl.h"
#include "core/error.h"
#include "core/ops/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {
namespace functions {

struct Affine {
  double a, b;
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return hn::MulAdd(constant(d, a), x, constant(d, b));
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V, V) const {
    return constant(d, a);
  }
};

struct Exp {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return exp(d, x);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D, V, V y) const {
    return y;
  }
};

struct Log {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return log(d, x);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V) const {
    return hn::Div(constant(d, 1), x);
  }
};

struct Log1p {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return log1p(d, x);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V) const {
    return hn::Div(constant(d, 1), hn::Add(constant(d, 1), x));
  }
};

struct Sqrt {
  template <class D, class V>
  HWY_INLINE V value(D, V x) const {
    return hn::Sqrt(x);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V, V y) const {
    return hn::Div(constant(d, 0.5), y);
  }
};

struct Rsqrt {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return hn::Div(constant(d, 1), hn::Sqrt(x));
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V, V y) const {
    return hn::Mul(hn::Mul(constant(d, -0.5), y), hn::Mul(y, y));
  }
};

struct Reciprocal {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return hn::Div(constant(d, 1), x);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D, V, V y) const {
    return hn::Neg(hn::Mul(y, y));
  }
};

struct Square {
  template <class D, class V>
  HWY_INLINE V value(D, V x) const {
    return hn::Mul(x, x);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D, V x, V) const {
    return hn::Add(x, x);
  }
};

/// x^n by repeated squaring. The error doubles with each squaring: for small n only.
struct IntegerPower {
  static constexpr int largest = 8;
  int n;

  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return power(d, x, n);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V) const {
    return n == 0 ? hn::Zero(d) : hn::Mul(constant(d, n), power(d, x, n - 1));
  }

 private:
  template <class D, class V>
  static HWY_INLINE V power(D d, V x, int exponent) {
    V result = constant(d, 1);
    for (int rest = std::abs(exponent); rest != 0; rest >>= 1) {
      if (rest & 1) result = hn::Mul(result, x);
      x = hn::Mul(x, x);
    }
    return exponent < 0 ? hn::Div(constant(d, 1), result) : result;
  }
};

struct Power {
  double a;
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return power(d, x, 1, a);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V) const {
    return power(d, x, a, a - 1);
  }

 private:
  // factor x^exponent, in double for f32 as well: an exponent rounded to f32 would cost |a log x|
  // units, and a power may be subnormal, thus 0, where `factor` times it is not.
  template <class D, class V>
  static HWY_INLINE V power(D d, V x, double factor, double exponent) {
    return lane_by_lane(d, x, [factor, exponent](auto lane) {
      return static_cast<decltype(lane)>(factor * std::pow(static_cast<double>(lane), exponent));
    });
  }
};

struct Sin {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return sin(d, x);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V) const {
    return cos(d, x);
  }
};

struct Cos {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return cos(d, x);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V) const {
    return hn::Neg(sin(d, x));
  }
};

/// 1 - y^2 would cancel where y nears 1: the derivative is 4 sigma'(2x).
struct Tanh {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return tanh(d, x);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V) const {
    return hn::Mul(constant(d, 4), logistic(d, hn::Add(x, x)).derivative);
  }
};

struct Sigmoid {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return logistic(d, x).value;
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V) const {
    return logistic(d, x).derivative;
  }
};

struct Softplus {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return softplus(d, x);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V) const {
    return logistic(d, x).value;
  }
};

struct Relu {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);  // keeps NaN
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V) const {
    return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), constant(d, 1));
  }
};

struct Silu {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return hn::Mul(x, logistic(d, x).value);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V) const {
    const auto s = logistic(d, x);
    return hn::MulAdd(x, s.derivative, s.value);
  }
};

struct Gelu {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return hn::Mul(x, normal(d, x).cdf);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V) const {
    const auto n = normal(d, x);
    const V density = hn::Mul(constant(d, std::numbers::inv_sqrtpi / std::numbers::sqrt2), n.gauss);
    return hn::MulAdd(x, density, n.cdf);
  }
};

/// x (1 + tanh(z / 2)) / 2 = x sigma(z), z = sqrt(8 / pi) (x + 0.044715 x^3).
struct GeluTanh {
  static constexpr double slope = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  static constexpr double cubic = 0.044715;

  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return hn::Mul(x, logistic(d, argument(d, x)).value);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V) const {
    const auto s = logistic(d, argument(d, x));
    const V dz = hn::MulAdd(constant(d, 3 * slope * cubic), hn::Mul(x, x), constant(d, slope));
    // sigma' is 0 where x dz would overflow.
    const V rest = hn::Mul(hn::Mul(s.derivative, x), dz);
    return hn::Add(s.value, hn::IfThenElse(hn::Eq(s.derivative, hn::Zero(d)), hn::Zero(d), rest));
  }

 private:
  template <class D, class V>
  static HWY_INLINE V argument(D d, V x) {
    const V factor = hn::MulAdd(constant(d, slope * cubic), hn::Mul(x, x), constant(d, slope));
    return hn::Mul(x, factor);
  }
};

struct Elu {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, expm1(d, x));
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), constant(d, 1), exp(d, x));
  }
};

struct EluPlusOne {
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Add(x, constant(d, 1)), exp(d, x));
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V y) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), constant(d, 1), y);
  }
};

struct Clamp {
  double low, high;
  template <class D, class V>
  HWY_INLINE V value(D d, V x) const {
    const V a = constant(d, low), b = constant(d, high);
    const V above = hn::IfThenElse(hn::Lt(x, a), a, x);  // comparisons keep NaN
    return hn::IfThenElse(hn::Gt(above, b), b, above);
  }
  template <class D, class V>
  HWY_INLINE V derivative(D d, V x, V) const {
    const auto inside = hn::And(hn::Gt(x, constant(d, low)), hn::Lt(x, constant(d, high)));
    return hn::IfThenElseZero(inside, constant(d, 1));
  }
};

}  // namespace functions

/// Calls fn with the function object of `power`.
template <class Fn>
void with_power(double exponent, Fn&& fn) {
  if (std::nearbyint(exponent) == exponent &&
      std::abs(exponent) <= functions::IntegerPower::largest)
    return fn(functions::IntegerPower{static_cast<int>(exponent)});
  if (exponent == 0.5) return fn(functions::Sqrt{});
  fn(functions::Power{exponent});
}

/// Calls fn with the function object of `f`: the one place where the enum is looked at.
template <class Fn>
void with_function(const Unary& f, Fn&& fn) {
  switch (f.op) {
    case UnaryOp::affine:
      return fn(functions::Affine{f.a, f.b});
    case UnaryOp::exp:
      return fn(functions::Exp{});
    case UnaryOp::log:
      return fn(functions::Log{});
    case UnaryOp::log1p:
      return fn(functions::Log1p{});
    case UnaryOp::sqrt:
      return fn(functions::Sqrt{});
    case UnaryOp::rsqrt:
      return fn(functions::Rsqrt{});
    case UnaryOp::reciprocal:
      return fn(functions::Reciprocal{});
    case UnaryOp::square:
      return fn(functions::Square{});
    case UnaryOp::power:
      return with_power(f.a, fn);
    case UnaryOp::sin:
      return fn(functions::Sin{});
    case UnaryOp::cos:
      return fn(functions::Cos{});
    case UnaryOp::tanh:
      return fn(functions::Tanh{});
    case UnaryOp::sigmoid:
      return fn(functions::Sigmoid{});
    case UnaryOp::softplus:
      return fn(functions::Softplus{});
    case UnaryOp::relu:
      return fn(functions::Relu{});
    case UnaryOp::silu:
      return fn(functions::Silu{});
    case UnaryOp::gelu:
      return fn(functions::Gelu{});
    case UnaryOp::gelu_tanh:
      return fn(functions::GeluTanh{});
    case UnaryOp::elu:
      return fn(functions::Elu{});
    case UnaryOp::elu_plus_one:
      return fn(functions::EluPlusOne{});
    case UnaryOp::clamp:
      return fn(functions::Clamp{f.a, f.b});
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#endif  // MOBIUS_CORE_CPU_FUNCTIONS_INL_H_
