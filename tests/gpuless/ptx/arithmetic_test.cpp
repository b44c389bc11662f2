// Floating-point arithmetic and special functions against the host's.

#include <cfenv>
#include <cmath>
#include <cstdint>

#include "tests/gpuless/ptx/half.h"
#include "tests/gpuless/ptx/instruction_runner.h"

namespace mobius::ptx {
namespace arithmetic {

template <typename T>
class FloatArithmetic : public testing::Test {
 protected:
  static std::string of(const std::string& code) {
    std::string text = code;
    for (std::size_t place; (place = text.find("TYPE")) != std::string::npos;) {
      text.replace(place, 4, sizeof(T) == 8 ? "f64" : "f32");
    }
    return text;
  }
};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(FloatArithmetic, FloatTypes);

TYPED_TEST(FloatArithmetic, RoundsToNearest) {
  using T = TypeParam;
  expect_binary<T, T>(this->of("add.TYPE d, a, b;"), [](T a, T b) { return a + b; });
  expect_binary<T, T>(this->of("sub.TYPE d, a, b;"), [](T a, T b) { return a - b; });
  expect_binary<T, T>(this->of("mul.rn.TYPE d, a, b;"), [](T a, T b) { return a * b; });
  expect_binary<T, T>(this->of("div.rn.TYPE d, a, b;"), [](T a, T b) { return a / b; });
  expect_ternary<T, T>(this->of("fma.rn.TYPE d, a, b, c;"),
                       [](T a, T b, T c) { return std::fma(a, b, c); });
  expect_unary<T, T>(this->of("sqrt.rn.TYPE d, a;"), [](T a) { return std::sqrt(a); });
  expect_unary<T, T>(this->of("rcp.rn.TYPE d, a;"), [](T a) { return 1 / a; });
  expect_unary<T, T>(this->of("neg.TYPE d, a;"), [](T a) { return -a; });
  expect_unary<T, T>(this->of("abs.TYPE d, a;"), [](T a) { return std::fabs(a); });
  expect_binary<T, T>(this->of("copysign.TYPE d, a, b;"),
                      [](T a, T b) { return std::copysign(b, a); });
}

TYPED_TEST(FloatArithmetic, RoundsAsTold) {
  using T = TypeParam;
  for (const auto& [suffix, mode] :
       {std::pair{"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}}) {
    const auto rounded = [mode = mode](auto compute) {
      return [=](auto... operands) {
        std::fesetround(mode);
        volatile T result = compute(static_cast<volatile T>(operands)...);
        std::fesetround(FE_TONEAREST);
        return static_cast<T>(result);
      };
    };
    const auto with = [&](const std::string& name, const std::string& rest) {
      return this->of(name + "." + suffix + ".TYPE " + rest);
    };
    expect_binary<T, T>(with("add", "d, a, b;"), rounded([](T a, T b) { return a + b; }));
    expect_binary<T, T>(with("mul", "d, a, b;"), rounded([](T a, T b) { return a * b; }));
    expect_binary<T, T>(with("div", "d, a, b;"), rounded([](T a, T b) { return a / b; }));
    expect_ternary<T, T>(with("fma", "d, a, b, c;"),
                         rounded([](T a, T b, T c) { return std::fma(a, b, c); }));
    expect_unary<T, T>(with("sqrt", "d, a;"), rounded([](T a) { return std::sqrt(a); }));
  }
}

TYPED_TEST(FloatArithmetic, MinimumAndMaximum) {
  using T = TypeParam;
  const auto least = [](T a, T b) {
    return std::isnan(a) ? b : std::isnan(b) ? a : a < b || (a == b && std::signbit(a)) ? a : b;
  };
  const auto most = [](T a, T b) {
    return std::isnan(a) ? b : std::isnan(b) ? a : a > b || (a == b && std::signbit(b)) ? a : b;
  };
  expect_binary<T, T>(this->of("min.TYPE d, a, b;"), least);
  expect_binary<T, T>(this->of("max.TYPE d, a, b;"), most);
}

TEST(Arithmetic, NanVariantsOfMaximum) {
  expect_binary<float, float>("max.NaN.f32 d, a, b;", [](float a, float b) {
    return std::isnan(a) || std::isnan(b) ? NAN : a > b || (a == b && std::signbit(b)) ? a : b;
  });
}

TEST(Arithmetic, FlushesAndSaturates) {
  const auto flush = [](float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
  };
  expect_binary<float, float>("add.ftz.f32 d, a, b;",
                              [=](float a, float b) { return flush(flush(a) + flush(b)); });
  expect_binary<float, float>("mul.ftz.f32 d, a, b;",
                              [=](float a, float b) { return flush(flush(a) * flush(b)); });
  expect_ternary<float, float>("fma.rn.sat.f32 d, a, b, c;", [](float a, float b, float c) {
    const float x = std::fma(a, b, c);
    return x > 0 ? std::fmin(x, 1.0f) : 0.0f;
  });
}

// Distances in units of the last place, of results that are not subnormal.
void expect_close(const std::string& code, double (*host)(double), float low, float high,
                  double ulps) {
  std::vector<float> a(2000);
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = low + (high - low) * (static_cast<float>(i) + 0.5f) / 2000;
  const auto d = run_instruction<float>(code, a, a, a);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double expected = host(a[i]);
    const double unit = std::ldexp(1.0, std::ilogb(expected) - 23);
    ASSERT_LE(std::fabs(d[i] - expected), ulps * unit) << code << " of " << a[i];
  }
}

TEST(Arithmetic, SpecialFunctions) {
  expect_close("ex2.approx.f32 d, a;", std::exp2, -120, 120, 2);
  expect_close("ex2.approx.ftz.f32 d, a;", std::exp2, -120, 120, 2);
  expect_close("lg2.approx.f32 d, a;", std::log2, 1.001f, 1e6f, 2);
  expect_close("lg2.approx.f32 d, a;", std::log2, 1e-30f, 0.99f, 2);
  expect_close(
      "rcp.approx.f32 d, a;", [](double x) { return 1 / x; }, 0.01f, 100, 1);
  expect_close(
      "rsqrt.approx.f32 d, a;", [](double x) { return 1 / std::sqrt(x); }, 0.01f, 100, 2);
  expect_close("sqrt.approx.f32 d, a;", std::sqrt, 0.01f, 100, 1);
  expect_close("sin.approx.f32 d, a;", std::sin, 0.1f, 3, 4);
  expect_close("cos.approx.f32 d, a;", std::cos, 0, 1.5f, 4);
  expect_close("tanh.approx.f32 d, a;", std::tanh, -4, 4, 1 << 12);
}

TEST(Arithmetic, SpecialFunctionsAtTheEdges) {
  const float inf = INFINITY;
  const auto run = [](const std::string& code, std::vector<float> a) {
    return run_instruction<float>(code, a, a, a);
  };
  EXPECT_EQ(run("ex2.approx.f32 d, a;", {-inf, -200, 0, 128, inf, 3}),
            (std::vector<float>{0, 0, 1, inf, inf, 8}));
  EXPECT_EQ(run("lg2.approx.f32 d, a;", {0, 1, inf, 0.125f, 0x1p-140f}),
            (std::vector<float>{-inf, 0, inf, -3, -140}));
  EXPECT_EQ(run("rcp.approx.ftz.f32 d, a;", {0, -0.0f, inf, 0x1p-140f}),
            (std::vector<float>{inf, -inf, 0, inf}));
  EXPECT_TRUE(std::isnan(run("lg2.approx.f32 d, a;", {-1})[0]));
  EXPECT_TRUE(std::isnan(run("ex2.approx.f32 d, a;", {NAN})[0]));
}

// The raw approximations of f64 have 20 bits and no lower half.
TEST(Arithmetic, CoarseReciprocalsOfDoubles) {
  const std::vector<double> a = {3, 0.7, -1e100, 1e-310};
  const auto reciprocal = run_instruction<double>("rcp.approx.ftz.f64 d, a;", a, a, a);
  const auto root = run_instruction<double>("rsqrt.approx.ftz.f64 d, a;", a, a, a);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(reciprocal[i] * a[i], 1, 0x1p-18);
    EXPECT_NE(reciprocal[i] * a[i], 1);
    EXPECT_EQ(static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(reciprocal[i])), 0u);
  }
  EXPECT_NEAR(root[0] * std::sqrt(3.0), 1, 0x1p-18);
  EXPECT_EQ(reciprocal[3], INFINITY);
}

TEST(Arithmetic, SixteenBits) {
  // Two numbers of 16 bits from one sample; the results are exact in double before the only
  // rounding.
  const auto check = [](const std::string& code, auto tag, auto host) {
    using H = decltype(tag);
    expect_ternary<std::uint16_t, std::uint16_t>(code, [=](std::uint16_t a, std::uint16_t b,
                                                           std::uint16_t c) {
      const auto value = [](std::uint16_t bits) { return static_cast<double>(to_float(H{bits})); };
      return from_double<H>(host(value(a), value(b), value(c))).bits;
    });
  };
  const auto sum = [](double a, double b, double) { return a + b; };
  const auto fused = [](double a, double b, double c) { return std::fma(a, b, c); };
  check("add.f16 d, a, b;", Half{}, sum);
  check("fma.rn.f16 d, a, b, c;", Half{}, fused);
  check("fma.rn.bf16 d, a, b, c;", Bfloat{}, fused);
  expect_unary<std::uint16_t, std::uint16_t>("neg.bf16 d, a;",
                                             [](std::uint16_t a) { return a ^ 0x8000; });
  expect_unary<std::uint32_t, std::uint32_t>("abs.f16x2 d, a;",
                                             [](std::uint32_t a) { return a & 0x7FFF7FFF; });
}

TEST(Arithmetic, PackedSixteenBits) {
  const std::vector<std::uint32_t> a = {0x3C004000};  // 1 and 2
  const std::vector<std::uint32_t> b = {0x42004400};  // 3 and 4
  EXPECT_EQ(run_instruction<std::uint32_t>("fma.rn.f16x2 d, a, b, a;", a, b, a)[0],
            0x44004900u);  // 4 and 10
  const std::vector<std::uint32_t> x = {0x3F804000};
  const std::vector<std::uint32_t> y = {0x40404080};
  EXPECT_EQ(run_instruction<std::uint32_t>("fma.rn.bf16x2 d, a, b, a;", x, y, x)[0], 0x40804120u);
  EXPECT_EQ(run_instruction<std::uint32_t>("max.bf16x2 d, a, b;", x, y, x)[0], 0x40404080u);
}

}  // namespace arithmetic
}  // namespace mobius::ptx
