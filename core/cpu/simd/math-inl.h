// Elementary functions on Highway vectors, correct over the whole range of f32 and f64, including
// infinities and NaN: no intermediate overflow, and a relative error of a few units in the last
// place. They complement hwy/contrib/math, whose functions cover a limited range.
//
// Included once per instruction set (Highway's convention for -inl.h files).
#if defined(MOBIUS_CORE_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOBIUS_CORE_CPU_MATH_INL_H_
#undef MOBIUS_CORE_CPU_MATH_INL_H_
#else
#define MOBIUS_CORE_CPU_MATH_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> constant(D d, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}

template <class D>
HWY_INLINE hn::Vec<D> infinity(D d) {
  return hn::Set(d, std::numeric_limits<hn::TFromD<D>>::infinity());
}

/// sum_k coefficients[k] x^k. Even and odd powers are summed separately, to halve the chain of
/// dependent additions.
template <class D, class V, class T, std::size_t N>
HWY_INLINE V polynomial(D d, V x, const std::array<T, N>& coefficients) {
  static_assert(N >= 2 && N % 2 == 0);
  const V x2 = hn::Mul(x, x);
  V odd = hn::Set(d, coefficients[N - 1]), even = hn::Set(d, coefficients[N - 2]);
  for (std::size_t k = N - 2; k >= 2; k -= 2) {
    odd = hn::MulAdd(odd, x2, hn::Set(d, coefficients[k - 1]));
    even = hn::MulAdd(even, x2, hn::Set(d, coefficients[k - 2]));
  }
  return hn::MulAdd(odd, x, even);
}

/// Applies fn to each lane separately. Slow; for arguments that the vector code does not cover.
template <class D, class V, class Fn>
HWY_INLINE V lane_by_lane(D d, V x, Fn fn) {
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(D())];
  hn::Store(x, d, lanes);
  for (auto& lane : lanes) lane = fn(lane);
  return hn::Load(d, lanes);
}

/// The largest x with a finite e^x.
template <class T>
constexpr T exp_limit() {
  return static_cast<T>(std::is_same_v<T, float> ? 88.7228391 : 709.782712893384);
}

template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  const auto finite = hn::Le(x, hn::Set(d, exp_limit<hn::TFromD<D>>()));
  return hn::IfThenElse(finite, hn::Exp(d, x), hn::Mul(x, infinity(d)));
}

template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  const auto finite = hn::Le(x, hn::Set(d, exp_limit<hn::TFromD<D>>()));
  return hn::IfThenElse(finite, hn::Expm1(d, x), hn::Mul(x, infinity(d)));
}

/// Extends `value`, a logarithm that is finite for x > pole, to all x: -inf at the pole, NaN below.
template <class D, class V>
HWY_INLINE V complete_log(D d, V x, V pole, V value) {
  const V inf = infinity(d);
  const V beyond = hn::IfThenElse(hn::Eq(x, pole), hn::Neg(inf), hn::NaN(d));
  return hn::IfThenElse(hn::Gt(x, pole), hn::IfThenElse(hn::Eq(x, inf), x, value), beyond);
}

HWY_INLINE auto log(auto d, auto x) { return complete_log(d, x, hn::Zero(d), hn::Log(d, x)); }

HWY_INLINE auto log1p(auto d, auto x) {
  return complete_log(d, x, constant(d, -1), hn::Log1p(d, x));
}

// Highway reduces arguments accurately up to 39000.
HWY_INLINE bool in_sincos_range(auto d, auto x) {
  return hn::AllTrue(d, hn::Le(hn::Abs(x), constant(d, 30000)));
}

HWY_INLINE auto sin(auto d, auto x) {
  if (HWY_LIKELY(in_sincos_range(d, x))) return hn::Sin(d, x);
  return lane_by_lane(d, x, [](auto lane) { return std::sin(lane); });
}

HWY_INLINE auto cos(auto d, auto x) {
  if (HWY_LIKELY(in_sincos_range(d, x))) return hn::Cos(d, x);
  return lane_by_lane(d, x, [](auto lane) { return std::cos(lane); });
}

/// The logistic function and its derivative, computed from e^-|x| without overflow or cancellation.
template <class V>
struct Logistic {
  V value;       // 1 / (1 + e^-x)
  V complement;  // 1 - value
  V derivative;  // value (1 - value)
};

template <class D, class V>
HWY_INLINE Logistic<V> logistic(D d, V x) {
  const V one = constant(d, 1);
  const V e = exp(d, hn::Neg(hn::Abs(x)));
  const V larger = hn::Div(one, hn::Add(one, e));
  const V smaller = hn::Mul(e, larger);
  const auto negative = hn::Lt(x, hn::Zero(d));
  return {hn::IfThenElse(negative, smaller, larger), hn::IfThenElse(negative, larger, smaller),
          hn::Mul(smaller, larger)};
}

// log(1 + e) = 2 atanh(s) = 2 s (1 + t P(t)) with s = e / (2 + e), t = s^2. P interpolates at the
// Chebyshev nodes of t in [0, 1/9]; the relative error is 2e-8 for f32 and 5e-18 for f64.
template <class T>
struct AtanhTail;

template <>
struct AtanhTail<float> {
  static constexpr std::array<float, 4> coefficients{0.3333332017f, 0.2000378032f, 0.141183099f,
                                                     0.1342574901f};
};

template <>
struct AtanhTail<double> {
  static constexpr std::array<double, 10> coefficients{
      0.3333333333333332928,  0.2000000000000729134,  0.1428571428355437858,
      0.1111111135871393149,  0.09090894718066429085, 0.07692785032479311552,
      0.06657072104827468075, 0.06000536404795356268, 0.04400369243072336941,
      0.0808202280597176611};
};

/// log(1 + e) for e in [0, 1].
template <class D, class V>
HWY_INLINE V log1p_of_unit(D d, V e) {
  const V s = hn::Div(e, hn::Add(e, constant(d, 2)));
  const V t = hn::Mul(s, s);
  const V twice = hn::Add(s, s);
  const V p = polynomial(d, t, AtanhTail<hn::TFromD<D>>::coefficients);
  return hn::MulAdd(hn::Mul(twice, t), p, twice);
}

/// log(1 + e^x).
HWY_INLINE auto softplus(auto d, auto x) {
  const auto above = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);  // keeps NaN
  return hn::Add(above, log1p_of_unit(d, exp(d, hn::Neg(hn::Abs(x)))));
}

// The tail of the standard normal distribution is Phi(-a) = e^(-a^2/2) u P(2u - 1), u = 4 / (a +
// 4), for a >= 0. The factor of the exponential is smooth on u in [0, 1], including a = infinity,
// so one polynomial covers the whole half line, an idea of M. M. Shepherd and J. G. Laframboise,
// "Chebyshev approximation of (1 + 2x) exp(x^2) erfc(x) in 0 <= x < infinity", Math. Comp. 36
// (1981) 249-253. P interpolates at the Chebyshev nodes, computed with 50 digits. Its relative
// error is 4e-9 for f32 and 1.2e-17 for f64, which has a zero appended to make the number of terms
// even.
template <class T>
struct NormalTail;

template <>
struct NormalTail<float> {
  static constexpr std::array<float, 12> coefficients{
      0.1888212826f,   0.1519741601f,   0.0967843486f,    0.04663049623f,
      0.015099161f,    0.001884672195f, -8.699857565e-4f, -4.060619093e-4f,
      3.341010656e-5f, 5.444276641e-5f, -4.314980731e-7f, -5.494760854e-6f};
};

template <>
struct NormalTail<double> {
  static constexpr std::array<double, 26> coefficients{
      0.1888212826039378733,     0.1519741604929730786,
      0.09678435018555363418,    0.04663046448990883095,
      0.01509914372273401777,    0.001885047241854891307,
      -8.699230918471039365e-4,  -4.077046169516111314e-4,
      3.333607817507695937e-5,   5.777375499800161881e-5,
      -4.77066271335669679e-7,   -8.786280640031453158e-6,
      1.791815994676253927e-7,   1.480409700494704082e-6,
      -1.574993566291055447e-7,  -2.562081265236580762e-7,
      6.817940208155962862e-8,   3.995669152609669327e-8,
      -2.178323655366872602e-8,  -4.470468102375854073e-9,
      5.401106710680101218e-9,   1.505250931987869122e-10,
      -9.495104649893623273e-10, 2.935526884811766418e-11,
      8.789231066702325171e-11,  0.0};
};

/// The standard normal distribution function Phi = (1 + erf(x / sqrt 2)) / 2, without cancellation
/// in the lower tail, and the exponential that Phi and its density share.
template <class V>
struct Normal {
  V cdf;
  V gauss;  // e^(-x^2/2)
};

template <class D, class V>
HWY_INLINE Normal<V> normal(D d, V x) {
  using T = hn::TFromD<D>;
  const V one = constant(d, 1);
  const V a = hn::Min(hn::Abs(x), constant(d, 40));  // e^-800 is 0 in f64 too
  const V half_a = hn::Mul(a, constant(d, 0.5));
  const V square = hn::Mul(half_a, a);
  const V lost = hn::MulSub(half_a, a, square);  // the rounding error of the square
  const V e = hn::Exp(d, hn::Neg(square));
  const V gauss = hn::NegMulAdd(e, lost, e);
  const V u = hn::Div(constant(d, 4), hn::Add(a, constant(d, 4)));
  const V p = polynomial(d, hn::MulSub(u, constant(d, 2), one), NormalTail<T>::coefficients);
  const V tail = hn::Mul(gauss, hn::Mul(u, p));
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)), gauss};
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#endif  // MOBIUS_CORE_CPU_MATH_INL_H_
