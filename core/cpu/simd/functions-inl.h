// The functions of UnaryOp on Highway vectors. Each is a struct with value(d, x) and
// derivative(d, x, y), where y = value(d, x). A derivative uses y only if the result is exact to
// the last places; the driver does not load unused arguments.
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
  HWY_INLINE auto value(auto d, auto x) const {
    return hn::MulAdd(constant(d, a), x, constant(d, b));
  }
  HWY_INLINE auto derivative(auto d, auto, auto) const { return constant(d, a); }
};

struct Exp {
  HWY_INLINE auto value(auto d, auto x) const { return exp(d, x); }
  HWY_INLINE auto derivative(auto, auto, auto y) const { return y; }
};

struct Log {
  HWY_INLINE auto value(auto d, auto x) const { return log(d, x); }
  HWY_INLINE auto derivative(auto d, auto x, auto) const { return hn::Div(constant(d, 1), x); }
};

struct Log1p {
  HWY_INLINE auto value(auto d, auto x) const { return log1p(d, x); }
  HWY_INLINE auto derivative(auto d, auto x, auto) const {
    return hn::Div(constant(d, 1), hn::Add(constant(d, 1), x));
  }
};

struct Sqrt {
  HWY_INLINE auto value(auto, auto x) const { return hn::Sqrt(x); }
  HWY_INLINE auto derivative(auto d, auto, auto y) const { return hn::Div(constant(d, 0.5), y); }
};

struct Rsqrt {
  HWY_INLINE auto value(auto d, auto x) const { return hn::Div(constant(d, 1), hn::Sqrt(x)); }
  HWY_INLINE auto derivative(auto d, auto, auto y) const {
    return hn::Mul(hn::Mul(constant(d, -0.5), y), hn::Mul(y, y));
  }
};

struct Reciprocal {
  HWY_INLINE auto value(auto d, auto x) const { return hn::Div(constant(d, 1), x); }
  HWY_INLINE auto derivative(auto, auto, auto y) const { return hn::Neg(hn::Mul(y, y)); }
};

struct Square {
  HWY_INLINE auto value(auto, auto x) const { return hn::Mul(x, x); }
  HWY_INLINE auto derivative(auto, auto x, auto) const { return hn::Add(x, x); }
};

/// x^n by repeated squaring. Each squaring doubles the error.
template <class D>
HWY_INLINE hn::Vec<D> integer_power(D d, hn::Vec<D> x, int n) {
  auto result = constant(d, 1);
  for (int rest = std::abs(n); rest != 0; rest >>= 1) {
    if (rest & 1) result = hn::Mul(result, x);
    x = hn::Mul(x, x);
  }
  return n < 0 ? hn::Div(constant(d, 1), result) : result;
}

/// x^n for a small n, because of the error.
struct IntegerPower {
  static constexpr int largest = 8;
  int n;

  HWY_INLINE auto value(auto d, auto x) const { return integer_power(d, x, n); }
  HWY_INLINE auto derivative(auto d, auto x, auto) const {
    return n == 0 ? hn::Zero(d) : hn::Mul(constant(d, n), integer_power(d, x, n - 1));
  }
};

/// x^a. f32 also computes in double: rounding the exponent to f32 would cost |a log x| units, and a
/// power may be subnormal, and flushed to 0, although factor times it is normal. Where 2a is a
/// whole number, f32 goes by squaring, of which the double result keeps more digits than f32 has.
struct Power {
  double a;
  HWY_INLINE auto value(auto d, auto x) const { return power(d, x, 1, a); }
  HWY_INLINE auto derivative(auto d, auto x, auto) const { return power(d, x, a, a - 1); }

 private:
  static constexpr double largest_squared = 1000;  // the error stays below 2^10 units of double

  // Returns factor x^exponent.
  template <class D>
  static HWY_INLINE hn::Vec<D> power(D d, hn::Vec<D> x, double factor, double exponent) {
    if constexpr (std::is_same_v<hn::TFromD<D>, float>) {
      if (std::nearbyint(2 * exponent) == 2 * exponent && std::abs(exponent) < largest_squared)
        return half_power(d, x, factor, exponent);
    }
    return lane_by_lane(d, x, [factor, exponent](auto lane) {
      return static_cast<decltype(lane)>(factor * std::pow(static_cast<double>(lane), exponent));
    });
  }

  template <class D>
  static HWY_INLINE hn::Vec<D> half_power(D d, hn::Vec<D> x, double factor, double exponent) {
    const hn::Repartition<double, D> wide;
    const hn::Half<D> half;
    const auto whole = static_cast<int>(exponent);
    const bool has_root = whole != exponent;
    const auto of = [&](auto lanes) {
      const auto base = hn::PromoteTo(wide, lanes);
      // `whole` is cut towards 0, so the half that is left has the sign of the exponent.
      auto result = integer_power(wide, base, whole);
      if (has_root) {
        const auto root = hn::Sqrt(base);
        result = exponent < 0 ? hn::Div(result, root) : hn::Mul(result, root);
      }
      return hn::DemoteTo(half, hn::Mul(hn::Set(wide, factor), result));
    };
    return hn::Combine(d, of(hn::UpperHalf(half, x)), of(hn::LowerHalf(half, x)));
  }
};

struct Sin {
  HWY_INLINE auto value(auto d, auto x) const { return sin(d, x); }
  HWY_INLINE auto derivative(auto d, auto x, auto) const { return cos(d, x); }
};

struct Cos {
  HWY_INLINE auto value(auto d, auto x) const { return cos(d, x); }
  HWY_INLINE auto derivative(auto d, auto x, auto) const { return hn::Neg(sin(d, x)); }
};

/// The derivative is 4 sigma'(2x): 1 - y^2 would cancel as y approaches 1.
struct Tanh {
  HWY_INLINE auto value(auto d, auto x) const { return hn::Tanh(d, x); }
  HWY_INLINE auto derivative(auto d, auto x, auto) const {
    return hn::Mul(constant(d, 4), logistic(d, hn::Add(x, x)).derivative);
  }
};

struct Sigmoid {
  HWY_INLINE auto value(auto d, auto x) const { return logistic(d, x).value; }
  HWY_INLINE auto derivative(auto d, auto x, auto) const { return logistic(d, x).derivative; }
};

struct Softplus {
  HWY_INLINE auto value(auto d, auto x) const { return softplus(d, x); }
  HWY_INLINE auto derivative(auto d, auto x, auto) const { return logistic(d, x).value; }
};

struct Relu {
  HWY_INLINE auto value(auto d, auto x) const {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);  // keeps NaN
  }
  HWY_INLINE auto derivative(auto d, auto x, auto) const {
    return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), constant(d, 1));
  }
};

struct Silu {
  HWY_INLINE auto value(auto d, auto x) const { return hn::Mul(x, logistic(d, x).value); }
  HWY_INLINE auto derivative(auto d, auto x, auto) const {
    const auto s = logistic(d, x);
    return hn::MulAdd(x, s.derivative, s.value);
  }
};

struct Gelu {
  HWY_INLINE auto value(auto d, auto x) const { return hn::Mul(x, normal(d, x).cdf); }
  HWY_INLINE auto derivative(auto d, auto x, auto) const {
    const auto n = normal(d, x);
    const auto density =
        hn::Mul(constant(d, std::numbers::inv_sqrtpi / std::numbers::sqrt2), n.gauss);
    return hn::MulAdd(x, density, n.cdf);
  }
};

/// x (1 + tanh(z / 2)) / 2 = x sigma(z), z = sqrt(8 / pi) (x + 0.044715 x^3).
struct GeluTanh {
  static constexpr double slope = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  static constexpr double cubic = 0.044715;

  HWY_INLINE auto value(auto d, auto x) const {
    return hn::Mul(x, logistic(d, argument(d, x)).value);
  }
  HWY_INLINE auto derivative(auto d, auto x, auto) const {
    const auto s = logistic(d, argument(d, x));
    const auto dz = hn::MulAdd(constant(d, 3 * slope * cubic), hn::Mul(x, x), constant(d, slope));
    // sigma' is 0 if x dz would overflow.
    const auto rest = hn::Mul(hn::Mul(s.derivative, x), dz);
    return hn::Add(s.value, hn::IfThenElse(hn::Eq(s.derivative, hn::Zero(d)), hn::Zero(d), rest));
  }

 private:
  static HWY_INLINE auto argument(auto d, auto x) {
    const auto factor = hn::MulAdd(constant(d, slope * cubic), hn::Mul(x, x), constant(d, slope));
    return hn::Mul(x, factor);
  }
};

struct Elu {
  HWY_INLINE auto value(auto d, auto x) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, expm1(d, x));
  }
  HWY_INLINE auto derivative(auto d, auto x, auto) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), constant(d, 1), exp(d, x));
  }
};

struct EluPlusOne {
  HWY_INLINE auto value(auto d, auto x) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Add(x, constant(d, 1)), exp(d, x));
  }
  HWY_INLINE auto derivative(auto d, auto x, auto y) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), constant(d, 1), y);
  }
};

struct Clamp {
  double low, high;
  HWY_INLINE auto value(auto d, auto x) const {
    const auto a = constant(d, low), b = constant(d, high);
    const auto above = hn::IfThenElse(hn::Lt(x, a), a, x);  // comparisons keep NaN
    return hn::IfThenElse(hn::Gt(above, b), b, above);
  }
  HWY_INLINE auto derivative(auto d, auto x, auto) const {
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

/// Calls fn with the function object of `f`. Only this function switches over the enum.
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
