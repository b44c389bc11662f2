// Integers, bits, comparisons and conversions against the host's.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tests/gpuless/ptx/half.h"
#include "tests/gpuless/ptx/instruction_runner.h"

namespace mobius::ptx {
namespace integer {

using i16 = std::int16_t;
using u16 = std::uint16_t;
using i32 = std::int32_t;
using u32 = std::uint32_t;
using i64 = std::int64_t;
using u64 = std::uint64_t;
__extension__ typedef __int128 i128;
__extension__ typedef unsigned __int128 u128;

template <typename T>
std::string of(const std::string& code) {
  std::string text = code;
  const std::string type = (std::is_signed_v<T> ? "s" : "u") + std::to_string(8 * sizeof(T));
  for (std::size_t place; (place = text.find("TYPE")) != std::string::npos;)
    text.replace(place, 4, type);
  return text;
}

template <typename T>
class Integers : public testing::Test {};
using IntegerTypes = testing::Types<i16, u16, i32, u32, i64, u64>;
TYPED_TEST_SUITE(Integers, IntegerTypes);

TYPED_TEST(Integers, Arithmetic) {
  using T = TypeParam;
  constexpr T kLeast = std::numeric_limits<T>::min();
  const auto is_overflow = [](T a, T b) {
    return std::is_signed_v<T> && a == kLeast && b == T(-1);
  };
  expect_binary<T, T>(of<T>("add.TYPE d, a, b;"),
                      [](T a, T b) { return static_cast<T>(u64(a) + u64(b)); });
  expect_binary<T, T>(of<T>("sub.TYPE d, a, b;"),
                      [](T a, T b) { return static_cast<T>(u64(a) - u64(b)); });
  expect_binary<T, T>(of<T>("mul.lo.TYPE d, a, b;"),
                      [](T a, T b) { return static_cast<T>(u64(a) * u64(b)); });
  expect_binary<T, T>(of<T>("mul.hi.TYPE d, a, b;"), [](T a, T b) {
    using Wide = std::conditional_t<std::is_signed_v<T>, i128, u128>;
    return static_cast<T>(Wide(a) * Wide(b) >> (8 * sizeof(T)));
  });
  expect_ternary<T, T>(of<T>("mad.lo.TYPE d, a, b, c;"),
                       [](T a, T b, T c) { return static_cast<T>(u64(a) * u64(b) + u64(c)); });
  expect_binary<T, T>(of<T>("div.TYPE d, a, b;"), [=](T a, T b) {
    return b == 0 ? T(-1) : is_overflow(a, b) ? kLeast : T(a / b);
  });
  expect_binary<T, T>(of<T>("rem.TYPE d, a, b;"), [=](T a, T b) {
    return b == 0 ? a : is_overflow(a, b) ? T(0) : T(a % b);
  });
  expect_binary<T, T>(of<T>("min.TYPE d, a, b;"), [](T a, T b) { return std::min(a, b); });
  expect_binary<T, T>(of<T>("max.TYPE d, a, b;"), [](T a, T b) { return std::max(a, b); });
  if constexpr (std::is_signed_v<T>) {
    expect_unary<T, T>(of<T>("neg.TYPE d, a;"), [](T a) { return static_cast<T>(0 - u64(a)); });
    expect_unary<T, T>(of<T>("abs.TYPE d, a;"),
                       [](T a) { return static_cast<T>(a < 0 ? 0 - u64(a) : u64(a)); });
  }
}

TYPED_TEST(Integers, ShiftsAndLogic) {
  using T = TypeParam;
  constexpr u32 kBits = 8 * sizeof(T);
  const std::string bits = "b" + std::to_string(kBits);
  expect_binary<T, T>("and." + bits + " d, a, b;", [](T a, T b) { return T(a & b); });
  expect_binary<T, T>("or." + bits + " d, a, b;", [](T a, T b) { return T(a | b); });
  expect_binary<T, T>("xor." + bits + " d, a, b;", [](T a, T b) { return T(a ^ b); });
  expect_unary<T, T>("not." + bits + " d, a;", [](T a) { return T(~a); });
  expect_unary<T, T>("cnot." + bits + " d, a;", [](T a) { return T(a == 0); });
  expect_binary<T, T, u32>("shl." + bits + " d, a, b;",
                           [=](T a, u32 b) { return b >= kBits ? T(0) : T(u64(a) << b); });
  expect_binary<T, T, u32>(of<T>("shr.TYPE d, a, b;"), [=](T a, u32 b) {
    return b >= kBits ? T(std::is_signed_v<T> && a < 0 ? -1 : 0) : T(a >> b);
  });
}

TEST(Integer, WideProducts) {
  expect_binary<i64, i32>("mul.wide.s32 d, a, b;", [](i32 a, i32 b) { return i64{a} * b; });
  expect_binary<u64, u32>("mul.wide.u32 d, a, b;", [](u32 a, u32 b) { return u64{a} * b; });
  expect_binary<u32, u16>("mul.wide.u16 d, a, b;", [](u16 a, u16 b) { return u32{a} * b; });
  expect_ternary<i64, i32, i32, i64>("mad.wide.s32 d, a, b, c;", [](i32 a, i32 b, i64 c) {
    return i64(u64(i64{a} * b) + u64(c));
  });
  expect_ternary<u32, u32>("mad.hi.u32 d, a, b, c;",
                           [](u32 a, u32 b, u32 c) { return u32(u64{a} * b >> 32) + c; });
  expect_ternary<u32, u32>("sad.u32 d, a, b, c;",
                           [](u32 a, u32 b, u32 c) { return c + (a < b ? b - a : a - b); });
  expect_binary<i32, i32>("mul24.lo.s32 d, a, b;", [](i32 a, i32 b) {
    return i32(i64{i32(u32(a) << 8) >> 8} * (i32(u32(b) << 8) >> 8));
  });
  expect_binary<i32, i32>("add.sat.s32 d, a, b;", [](i32 a, i32 b) {
    return i32(std::clamp<i64>(i64{a} + b, INT32_MIN, INT32_MAX));
  });
}

// 128-bit sums and products out of 32-bit pieces, as libm has them.
TEST(Integer, CarryChains) {
  const std::string split =
      ".reg .b32 al, ah, bl, bh, dl, dh, x, y;\nmov.b64 {al, ah}, a;\nmov.b64 {bl, bh}, b;\n";
  const std::string join = "mov.b64 d, {dl, dh};";
  expect_binary<u64, u64>(split + "add.cc.u32 dl, al, bl;\naddc.u32 dh, ah, bh;\n" + join,
                          [](u64 a, u64 b) { return a + b; });
  expect_binary<u64, u64>(split + "sub.cc.u32 dl, al, bl;\nsubc.u32 dh, ah, bh;\n" + join,
                          [](u64 a, u64 b) { return a - b; });
  expect_binary<u64, u64>(
      split +
          "add.cc.u32 dl, al, bl;\naddc.cc.u32 dh, ah, bh;\naddc.u32 dl, 0, 0;\nmov.u32 dh, 0;\n" +
          join,
      [](u64 a, u64 b) { return u64(a + b < a); });
  expect_binary<u64, u64>(
      split +
          "mul.lo.u32 dl, al, bl;\nmul.hi.u32 dh, al, bl;\nmad.lo.cc.u32 dh, ah, bl, dh;\n"
          "madc.hi.u32 x, ah, bl, 0;\nmad.lo.cc.u32 dh, al, bh, dh;\nmadc.hi.u32 x, al, bh, x;\n" +
          join,
      [](u64 a, u64 b) { return a * b; });
}

TEST(Integer, BitFields) {
  expect_ternary<u32, u32, u32, u32>("and.b32 b, b, 63;\nand.b32 c, c, 63;\nbfe.u32 d, a, b, c;",
                                     [](u32 a, u32 b, u32 c) {
                                       b &= 63;
                                       c &= 63;
                                       const u64 field = b > 31 ? 0 : a >> b;
                                       return u32(c > 31 ? field : field & ((u64{1} << c) - 1));
                                     });
  expect_binary<i32, i32>("bfe.s32 d, a, 4, 8;",
                          [](i32 a, i32) { return i32(u32(a) << 20) >> 24; });
  expect_binary<u64, u64>("bfi.b64 d, a, b, 5, 11;",
                          [](u64 a, u64 b) { return (b & ~(u64{0x7FF} << 5)) | (a & 0x7FF) << 5; });
  expect_unary<u32, u32>("brev.b32 d, a;", [](u32 a) {
    u32 r = 0;
    for (int i = 0; i < 32; ++i) r |= (a >> i & 1) << (31 - i);
    return r;
  });
  expect_unary<u32, u64>("popc.b64 d, a;", [](u64 a) { return u32(std::popcount(a)); });
  expect_unary<u32, u32>("clz.b32 d, a;", [](u32 a) { return u32(std::countl_zero(a)); });
  expect_unary<u32, u32>("bfind.u32 d, a;",
                         [](u32 a) { return a == 0 ? ~0u : 31 - u32(std::countl_zero(a)); });
  expect_unary<u32, i32>("bfind.shiftamt.s32 d, a;", [](i32 a) {
    const u32 bits = u32(a < 0 ? ~a : a);
    return bits == 0 ? ~0u : u32(std::countl_zero(bits));
  });
  expect_unary<u32, u32>("fns.b32 d, a, 3, 2;", [](u32 a) {
    int found = 0;
    for (u32 i = 3; i < 32; ++i) {
      if ((a >> i & 1) != 0 && ++found == 2) return i;
    }
    return ~0u;
  });
}

TEST(Integer, ThreeOperandsOfBits) {
  expect_ternary<u32, u32>("lop3.b32 d, a, b, c, 0xE8;",
                           [](u32 a, u32 b, u32 c) { return (a & b) | (b & c) | (a & c); });
  expect_ternary<u32, u32>("lop3.b32 d, a, b, c, 0x96;",
                           [](u32 a, u32 b, u32 c) { return a ^ b ^ c; });
  expect_ternary<u32, u32>("lop3.b32 d, a, b, c, 202;",
                           [](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); });
  expect_ternary<u32, u32>("shf.l.wrap.b32 d, a, b, c;", [](u32 a, u32 b, u32 c) {
    return u32((u64{b} << 32 | a) << (c & 31) >> 32);
  });
  expect_ternary<u32, u32>("shf.r.clamp.b32 d, a, b, c;", [](u32 a, u32 b, u32 c) {
    return u32((u64{b} << 32 | a) >> std::min(c, 32u));
  });
  expect_binary<u32, u32>("prmt.b32 d, a, b, 0x7531;", [](u32 a, u32 b) {
    return (a >> 8 & 0xFF) | (a >> 24) << 8 | (b >> 8 & 0xFF) << 16 | (b >> 24) << 24;
  });
  expect_binary<u32, u32>("prmt.b32 d, a, b, 0xBA98;", [](u32 a, u32) {
    u32 r = 0;
    for (int i = 0; i < 4; ++i) r |= ((a >> (8 * i + 7) & 1) != 0 ? 0xFFu : 0) << (8 * i);
    return r;
  });
  expect_ternary<u32, u32>("dp4a.u32.u32 d, a, b, c;", [](u32 a, u32 b, u32 c) {
    for (int i = 0; i < 4; ++i) c += (a >> (8 * i) & 0xFF) * (b >> (8 * i) & 0xFF);
    return c;
  });
}

TEST(Comparison, OfNumbers) {
  const auto code = [](const std::string& name) {
    return "setp." + name + " p, a, b;\nselp.u32 d, 1, 0, p;";
  };
  const auto unordered = [](float a, float b) { return std::isnan(a) || std::isnan(b); };
  expect_binary<u32, float>(code("lt.f32"), [](float a, float b) { return a < b; });
  expect_binary<u32, float>(code("ne.f32"),
                            [=](float a, float b) { return !unordered(a, b) && a != b; });
  expect_binary<u32, float>(code("neu.f32"), [](float a, float b) { return a != b; });
  expect_binary<u32, float>(code("geu.f32"),
                            [=](float a, float b) { return unordered(a, b) || a >= b; });
  expect_binary<u32, float>(code("nan.f32"), unordered);
  expect_binary<u32, double>(code("num.f64"),
                             [](double a, double b) { return !std::isnan(a) && !std::isnan(b); });
  expect_binary<u32, double>(code("gt.f64"), [](double a, double b) { return a > b; });
  expect_binary<u32, i32>(code("le.s32"), [](i32 a, i32 b) { return a <= b; });
  expect_binary<u32, u32>(code("lo.u32"), [](u32 a, u32 b) { return a < b; });
  expect_binary<u32, i64>(code("ge.s64"), [](i64 a, i64 b) { return a >= b; });
  expect_binary<u32, i16>(code("gt.s16"), [](i16 a, i16 b) { return a > b; });
  expect_binary<u32, u16>(code("lt.bf16"),
                          [](u16 a, u16 b) { return to_float(Bfloat{a}) < to_float(Bfloat{b}); });
}

TEST(Comparison, Combined) {
  expect_ternary<u32, i32>(
      "setp.lt.s32 q, a, c;\nsetp.gt.and.s32 p, a, b, q;\nselp.u32 d, 1, 0, p;",
      [](i32 a, i32 b, i32 c) { return a > b && a < c; });
  expect_ternary<u32, i32>(
      "setp.lt.s32 q, a, c;\nsetp.gt.or.s32 p, a, b, !q;\nselp.u32 d, 1, 0, p;",
      [](i32 a, i32 b, i32 c) { return a > b || a >= c; });
  expect_ternary<u32, i32>(
      "setp.lt.s32 q, a, c;\nsetp.gt.s32 p, a, b;\nxor.pred p, p, q;\nnot.pred p, p;\nselp.u32 d, "
      "1, 0, p;",
      [](i32 a, i32 b, i32 c) { return (a > b) == (a < c); });
  expect_binary<u32, i32>("setp.lt.s32 p|q, a, b;\nselp.u32 d, 1, 0, q;",
                          [](i32 a, i32 b) { return a >= b; });
  expect_binary<u32, i32>("set.lt.u32.s32 d, a, b;", [](i32 a, i32 b) { return a < b ? ~0u : 0; });
  expect_binary<float, float>("set.lt.f32.f32 d, a, b;",
                              [](float a, float b) { return a < b ? 1.0f : 0.0f; });
  expect_ternary<u32, u32, u32, i32>("slct.u32.s32 d, a, b, c;",
                                     [](u32 a, u32 b, i32 c) { return c >= 0 ? a : b; });
  expect_unary<u32, float>("testp.subnormal.f32 p, a;\nselp.u32 d, 1, 0, p;",
                           [](float a) { return std::fpclassify(a) == FP_SUBNORMAL; });
  expect_unary<u32, double>("testp.finite.f64 p, a;\nselp.u32 d, 1, 0, p;",
                            [](double a) { return std::isfinite(a); });
}

template <typename D>
D clamped(double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(std::numeric_limits<D>::min()))
    return std::numeric_limits<D>::min();
  if (value >= static_cast<double>(std::numeric_limits<D>::max()))
    return std::numeric_limits<D>::max();
  return static_cast<D>(value);
}

TEST(Conversion, BetweenIntegers) {
  expect_unary<i64, i32>("cvt.s64.s32 d, a;", [](i32 a) { return i64{a}; });
  expect_unary<u64, u32>("cvt.u64.u32 d, a;", [](u32 a) { return u64{a}; });
  expect_unary<u32, u64>("cvt.u32.u64 d, a;", [](u64 a) { return u32(a); });
  expect_unary<i32, i32>("cvt.s32.s8 d, a;", [](i32 a) { return i32(std::int8_t(a)); });
  expect_unary<u32, u32>("cvt.u32.u8 d, a;", [](u32 a) { return a & 0xFF; });
  expect_unary<i32, i64>("cvt.sat.s32.s64 d, a;",
                         [](i64 a) { return i32(std::clamp<i64>(a, INT32_MIN, INT32_MAX)); });
}

TEST(Conversion, FromFloatingPoint) {
  expect_unary<i32, float>("cvt.rzi.s32.f32 d, a;",
                           [](float a) { return clamped<i32>(std::trunc(double{a})); });
  expect_unary<i32, float>("cvt.rni.s32.f32 d, a;",
                           [](float a) { return clamped<i32>(std::nearbyint(double{a})); });
  expect_unary<u32, double>("cvt.rmi.u32.f64 d, a;",
                            [](double a) { return clamped<u32>(std::floor(a)); });
  expect_unary<i64, double>("cvt.rpi.s64.f64 d, a;",
                            [](double a) { return clamped<i64>(std::ceil(a)); });
  expect_unary<float, float>("cvt.rmi.f32.f32 d, a;", [](float a) { return std::floor(a); });
  expect_unary<double, double>("cvt.rzi.f64.f64 d, a;", [](double a) { return std::trunc(a); });
  expect_unary<double, float>("cvt.f64.f32 d, a;", [](float a) { return double{a}; });
  expect_unary<float, double>("cvt.rn.f32.f64 d, a;", [](double a) { return float(a); });
  expect_unary<float, double>("cvt.rz.f32.f64 d, a;", [](double a) {
    const float nearest = float(a);
    return std::fabs(double{nearest}) > std::fabs(a) ? std::nextafter(nearest, 0.0f) : nearest;
  });
  expect_unary<float, float>("cvt.sat.f32.f32 d, a;",
                             [](float a) { return a > 0 ? std::fmin(a, 1.0f) : 0.0f; });
}

TEST(Conversion, ToFloatingPoint) {
  expect_unary<float, i32>("cvt.rn.f32.s32 d, a;", [](i32 a) { return float(a); });
  expect_unary<float, u64>("cvt.rn.f32.u64 d, a;", [](u64 a) { return float(a); });
  expect_unary<double, i64>("cvt.rn.f64.s64 d, a;", [](i64 a) { return double(a); });
  expect_unary<float, u32>("cvt.rz.f32.u32 d, a;", [](u32 a) {
    const float nearest = float(a);
    return double{nearest} > double(a) ? std::nextafter(nearest, 0.0f) : nearest;
  });
}

TEST(Conversion, OfSixteenBits) {
  expect_unary<u16, float>("cvt.rn.f16.f32 d, a;",
                           [](float a) { return from_float<Half>(a).bits; });
  expect_unary<u16, float>("cvt.rn.bf16.f32 d, a;",
                           [](float a) { return from_float<Bfloat>(a).bits; });
  expect_unary<float, u16>("cvt.f32.f16 d, a;", [](u16 a) { return to_float(Half{a}); });
  expect_unary<float, u16>("cvt.f32.bf16 d, a;", [](u16 a) { return to_float(Bfloat{a}); });
  expect_binary<u32, float>("cvt.rn.bf16x2.f32 d, a, b;", [](float a, float b) {
    return u32{from_float<Bfloat>(a).bits} << 16 | from_float<Bfloat>(b).bits;
  });
  expect_binary<u32, float>("cvt.rn.relu.f16x2.f32 d, a, b;", [](float a, float b) {
    return u32{from_float<Half>(a > 0 ? a : 0).bits} << 16 | from_float<Half>(b > 0 ? b : 0).bits;
  });
}

// Known roundings, so that the host's own functions are not the only measure.
TEST(Conversion, RoundsTiesToEven) {
  const std::vector<float> a = {1 + 0x1p-8f, 1 + 0x3p-8f, 1 + 0x1p-8f + 0x1p-20f,
                                0x1.FFp127f, -0x1p-133f,  NAN};
  EXPECT_EQ((run_instruction<u16, float>("cvt.rn.bf16.f32 d, a;", a, a, a)),
            (std::vector<u16>{0x3F80, 0x3F82, 0x3F81, 0x7F80, 0x8001, 0x7FFF}));
  const std::vector<float> b = {65519, 65520, 0x1p-25f, 0x1.8p-25f, 2049, 2051};
  EXPECT_EQ((run_instruction<u16, float>("cvt.rn.f16.f32 d, a;", b, b, b)),
            (std::vector<u16>{0x7BFF, 0x7C00, 0, 1, 0x6800, 0x6802}));
}

}  // namespace integer
}  // namespace mobius::ptx
