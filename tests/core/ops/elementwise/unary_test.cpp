// Functions of one variable against long double, over their range, at its ends, on ragged sizes.
#include <cmath>
#include <functional>
#include <numbers>
#include <string>

#include "core/error.h"
#include "tests/core/ops/kernel_testing.h"

namespace mobius::elementwise_test {
namespace {

using testing::misaligned;
using testing::near;
using Real = long double;

constexpr Real pi = std::numbers::pi_v<Real>;

Real sigma(Real x) { return 1 / (1 + std::exp(-x)); }
Real sigma_slope(Real x) { return sigma(x) * sigma(-x); }
Real normal_cdf(Real x) { return std::erfc(-x / std::sqrt(Real{2})) / 2; }
Real normal_density(Real x) { return std::exp(-x * x / 2) / std::sqrt(2 * pi); }
Real gelu_argument(Real x) { return std::sqrt(8 / pi) * (x + 0.044715L * x * x * x); }
Real gelu_argument_slope(Real x) { return std::sqrt(8 / pi) * (1 + 3 * 0.044715L * x * x); }

struct Case {
  std::string name;
  Unary f;
  double low, high;  // range of x
  std::function<Real(Real)> value, derivative;
  double ulps = 4;
  // Where the derivative is a sum that cancels: the size of its terms.
  std::function<Real(Real)> derivative_scale = [](Real) { return Real{0}; };
};

// Bounds in ulps: Highway promises 1 for exp, 2 for log1p, 3 for sin and cos, 4 for log, expm1 and
// tanh; each further operation adds half of one. gelu_tanh magnifies the rounding of its argument.
std::vector<Case> cases() {
  return {
      {"affine",
       {UnaryOp::affine, 2.5, 0},
       -9,
       9,
       [](Real x) { return 2.5L * x; },
       [](Real) { return 2.5L; },
       1},
      {"exp",
       {UnaryOp::exp},
       -85,
       85,
       [](Real x) { return std::exp(x); },
       [](Real x) { return std::exp(x); }},
      {"log",
       {UnaryOp::log},
       1e-30,
       3,
       [](Real x) { return std::log(x); },
       [](Real x) { return 1 / x; }},
      {"log1p",
       {UnaryOp::log1p},
       -0.999,
       2,
       [](Real x) { return std::log1p(x); },
       [](Real x) { return 1 / (1 + x); },
       5,
       [](Real x) { return 1 / (1 + x) / (1 + x); }},
      {"log1p near 0",
       {UnaryOp::log1p},
       -1e-6,
       1e-6,
       [](Real x) { return std::log1p(x); },
       [](Real x) { return 1 / (1 + x); }},
      {"sqrt",
       {UnaryOp::sqrt},
       0.001,
       100,
       [](Real x) { return std::sqrt(x); },
       [](Real x) { return 0.5L / std::sqrt(x); },
       1},
      {"rsqrt",
       {UnaryOp::rsqrt},
       0.001,
       100,
       [](Real x) { return 1 / std::sqrt(x); },
       [](Real x) { return -0.5L / (x * std::sqrt(x)); }},
      {"reciprocal",
       {UnaryOp::reciprocal},
       0.01,
       100,
       [](Real x) { return 1 / x; },
       [](Real x) { return -1 / (x * x); },
       2},
      {"square",
       {UnaryOp::square},
       -9,
       9,
       [](Real x) { return x * x; },
       [](Real x) { return 2 * x; },
       1},
      {"power 0", {UnaryOp::power, 0}, -3, 3, [](Real) { return 1; }, [](Real) { return 0; }},
      {"power 1", {UnaryOp::power, 1}, -3, 3, [](Real x) { return x; }, [](Real) { return 1; }},
      {"power 3",
       {UnaryOp::power, 3},
       -3,
       3,
       [](Real x) { return x * x * x; },
       [](Real x) { return 3 * x * x; }},
      {"power -5",
       {UnaryOp::power, -5},
       -3,
       -0.1,
       [](Real x) { return std::pow(x, Real{-5}); },
       [](Real x) { return -5 * std::pow(x, Real{-6}); }},
      {"power 8",
       {UnaryOp::power, 8},
       -3,
       3,
       [](Real x) { return std::pow(x, Real{8}); },
       [](Real x) { return 8 * std::pow(x, Real{7}); }},
      {"power 31",
       {UnaryOp::power, 31},
       -3,
       3,
       [](Real x) { return std::pow(x, Real{31}); },
       [](Real x) { return 31 * std::pow(x, Real{30}); }},
      {"power -31",
       {UnaryOp::power, -31},
       0.25,
       9,
       [](Real x) { return std::pow(x, Real{-31}); },
       [](Real x) { return -31 * std::pow(x, Real{-32}); }},
      {"power -30.5",
       {UnaryOp::power, -30.5},
       0.25,
       9,
       [](Real x) { return std::pow(x, -30.5L); },
       [](Real x) { return -30.5L * std::pow(x, -31.5L); }},
      {"power 9.5",
       {UnaryOp::power, 9.5},
       0.01,
       9,
       [](Real x) { return std::pow(x, 9.5L); },
       [](Real x) { return 9.5L * std::pow(x, 8.5L); }},
      {"power 2.25",
       {UnaryOp::power, 2.25},
       0.01,
       30,
       [](Real x) { return std::pow(x, 2.25L); },
       [](Real x) { return 2.25L * std::pow(x, 1.25L); }},
      {"power 0.5",
       {UnaryOp::power, 0.5},
       0.01,
       30,
       [](Real x) { return std::sqrt(x); },
       [](Real x) { return 0.5L / std::sqrt(x); }},
      {"sin",
       {UnaryOp::sin},
       -200,
       200,
       [](Real x) { return std::sin(x); },
       [](Real x) { return std::cos(x); }},
      {"cos",
       {UnaryOp::cos},
       -200,
       200,
       [](Real x) { return std::cos(x); },
       [](Real x) { return -std::sin(x); }},
      {"sin of large x",
       {UnaryOp::sin},
       1e5,
       1e7,
       [](Real x) { return std::sin(x); },
       [](Real x) { return std::cos(x); }},
      {"cos of large x",
       {UnaryOp::cos},
       1e5,
       1e7,
       [](Real x) { return std::cos(x); },
       [](Real x) { return -std::sin(x); }},
      {"tanh",
       {UnaryOp::tanh},
       -20,
       20,
       [](Real x) { return std::tanh(x); },
       [](Real x) { return 4 * sigma_slope(2 * x); },
       6},
      {"tanh near 0",
       {UnaryOp::tanh},
       -1e-3,
       1e-3,
       [](Real x) { return std::tanh(x); },
       [](Real x) { return 4 * sigma_slope(2 * x); },
       6},
      {"sigmoid", {UnaryOp::sigmoid}, -80, 80, sigma, sigma_slope},
      {"softplus",
       {UnaryOp::softplus},
       -80,
       80,
       [](Real x) { return std::max(x, Real{0}) + std::log1p(std::exp(-std::abs(x))); },
       sigma,
       5},
      {"relu",
       {UnaryOp::relu},
       -3,
       3,
       [](Real x) { return std::max(x, Real{0}); },
       [](Real x) { return x > 0; },
       0},
      {"silu",
       {UnaryOp::silu},
       -80,
       80,
       [](Real x) { return x * sigma(x); },
       [](Real x) { return sigma(x) + x * sigma_slope(x); },
       5,
       [](Real x) { return sigma(x) + std::abs(x) * sigma_slope(x); }},
      {"gelu",
       {UnaryOp::gelu},
       -12,
       12,
       [](Real x) { return x * normal_cdf(x); },
       [](Real x) { return normal_cdf(x) + x * normal_density(x); },
       6,
       [](Real x) { return normal_cdf(x) + std::abs(x) * normal_density(x); }},
      {"gelu near 0",
       {UnaryOp::gelu},
       -0.01,
       0.01,
       [](Real x) { return x * normal_cdf(x); },
       [](Real x) { return normal_cdf(x) + x * normal_density(x); }},
      {"gelu_tanh",
       {UnaryOp::gelu_tanh},
       -3.5,
       6,
       [](Real x) { return x * sigma(gelu_argument(x)); },
       [](Real x) {
         return sigma(gelu_argument(x)) +
                x * sigma_slope(gelu_argument(x)) * gelu_argument_slope(x);
       },
       24,
       [](Real x) {
         return sigma(gelu_argument(x)) +
                std::abs(x) * sigma_slope(gelu_argument(x)) * gelu_argument_slope(x);
       }},
      {"elu",
       {UnaryOp::elu},
       -80,
       5,
       [](Real x) { return x > 0 ? x : std::expm1(x); },
       [](Real x) { return x > 0 ? 1 : std::exp(x); },
       5},
      {"elu_plus_one",
       {UnaryOp::elu_plus_one},
       -80,
       5,
       [](Real x) { return x > 0 ? x + 1 : std::exp(x); },
       [](Real x) { return x > 0 ? 1 : std::exp(x); },
       5},
      {"clamp",
       {UnaryOp::clamp, -1, 2},
       -3,
       3,
       [](Real x) { return std::min(std::max(x, Real{-1}), Real{2}); },
       [](Real x) { return x > -1 && x < 2; },
       0},
  };
}

template <class T>
class Elementwise : public ::testing::Test {
 protected:
  static Tensor apply(const Unary& f, const std::vector<T>& x) {
    const Tensor in = misaligned(x), out = in.empty_like();
    tested.elementwise->unary(f, in, out);
    return out;
  }

  static T value(const Unary& f, double x) {
    return apply(f, {static_cast<T>(x)}).template to_vector<T>()[0];
  }
};

using RealTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Elementwise, RealTypes);

TYPED_TEST(Elementwise, ValuesAreAccurate) {
  for (const Case& c : cases()) {
    const auto x = testing::random_values<TypeParam>(20000, c.low, c.high, 1);
    const auto y = this->apply(c.f, x).template to_vector<TypeParam>();
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_TRUE(near(y[i], c.value(x[i]), c.ulps)) << c.name << " at " << x[i];
  }
}

TYPED_TEST(Elementwise, DerivativesAreAccurate) {
  for (const Case& c : cases()) {
    const auto x = testing::random_values<TypeParam>(20000, c.low, c.high, 2);
    const auto grad = testing::random_values<TypeParam>(20000, 0.5, 2, 3);
    const Tensor in = misaligned(x), y = this->apply(c.f, x), grad_x = in.empty_like();
    tested.elementwise->unary_backward(c.f, in, y, misaligned(grad), grad_x);
    const auto got = grad_x.template to_vector<TypeParam>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real want = grad[i] * c.derivative(x[i]);
      // Where the derivative is subnormal, or its product with the gradient, the result is 0.
      const Real flushed = (1 + grad[i]) * Real{std::numeric_limits<TypeParam>::min()};
      if (got[i] == 0 && std::abs(want) <= flushed) continue;
      ASSERT_TRUE(near(got[i], want, c.ulps + 6, grad[i] * c.derivative_scale(x[i])))
          << c.name << "' at " << x[i];
    }
  }
}

TYPED_TEST(Elementwise, EverySizeFillsItsOutputAndNothingElse) {
  for (const std::int64_t n : testing::ragged_sizes) {
    const auto values = testing::random_values<TypeParam>(n, -2, 2, 4);
    const Tensor x = misaligned(values);
    const Tensor out = placed::full({n + 4}, 77, x.dtype());
    const Unary square{UnaryOp::square};
    tested.elementwise->unary(square, x, out.slice(0, 3, n + 3));
    auto got = out.template to_vector<TypeParam>();
    ASSERT_EQ(got[2], 77);
    ASSERT_EQ(got.back(), 77);
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(got[i + 3], values[i] * values[i]);

    tested.elementwise->unary_backward(square, x, x, x, out.slice(0, 3, n + 3));
    got = out.template to_vector<TypeParam>();
    ASSERT_EQ(got[2], 77);
    ASSERT_EQ(got.back(), 77);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(got[i + 3], values[i] * (values[i] + values[i]));
  }
}

TYPED_TEST(Elementwise, NanStaysNan) {
  for (const Case& c : cases()) {
    if (c.f.op == UnaryOp::power && c.f.a == 0) continue;  // x^0 = 1
    EXPECT_TRUE(std::isnan(this->value(c.f, std::nan("")))) << c.name;
  }
}

TYPED_TEST(Elementwise, EndsOfTheRange) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto at = [](UnaryOp op, double x) { return TestFixture::value({op}, x); };
  EXPECT_EQ(at(UnaryOp::exp, 1000), inf);
  EXPECT_EQ(at(UnaryOp::exp, inf), inf);
  EXPECT_EQ(at(UnaryOp::exp, -1000), 0);
  EXPECT_EQ(at(UnaryOp::exp, -inf), 0);
  EXPECT_EQ(at(UnaryOp::log, 0), -inf);
  EXPECT_EQ(at(UnaryOp::log, inf), inf);
  EXPECT_TRUE(std::isnan(at(UnaryOp::log, -1)));
  EXPECT_EQ(at(UnaryOp::log1p, -1), -inf);
  EXPECT_EQ(at(UnaryOp::log1p, inf), inf);
  EXPECT_TRUE(std::isnan(at(UnaryOp::log1p, -2)));
  EXPECT_EQ(at(UnaryOp::softplus, 1000), 1000);
  EXPECT_EQ(at(UnaryOp::softplus, -1000), 0);
  EXPECT_EQ(at(UnaryOp::sigmoid, 1000), 1);
  EXPECT_EQ(at(UnaryOp::sigmoid, -1000), 0);
  EXPECT_EQ(at(UnaryOp::sigmoid, -inf), 0);
  EXPECT_EQ(at(UnaryOp::tanh, 1000), 1);
  EXPECT_EQ(at(UnaryOp::tanh, -inf), -1);
  EXPECT_EQ(at(UnaryOp::silu, -1000), 0);
  EXPECT_EQ(at(UnaryOp::silu, 1000), 1000);
  EXPECT_EQ(at(UnaryOp::gelu, -1000), 0);
  EXPECT_EQ(at(UnaryOp::gelu, 1000), 1000);
  EXPECT_EQ(at(UnaryOp::gelu_tanh, -1000), 0);
  EXPECT_EQ(at(UnaryOp::gelu_tanh, 1000), 1000);
  EXPECT_EQ(at(UnaryOp::elu, -1000), -1);
  EXPECT_TRUE(std::isnan(this->value({UnaryOp::power, 0.75}, -1)));
  EXPECT_EQ(this->value({UnaryOp::power, -1}, 0), inf);
}

// The largest finite results, and those that are no longer normal numbers.
TYPED_TEST(Elementwise, ExpNearOverflowAndUnderflow) {
  const Real highest = std::log(static_cast<Real>(std::numeric_limits<TypeParam>::max()));
  const Real lowest = std::log(static_cast<Real>(std::numeric_limits<TypeParam>::denorm_min()));
  const TypeParam below = std::nextafter(static_cast<TypeParam>(highest), TypeParam{0});
  EXPECT_TRUE(near(this->value({UnaryOp::exp}, below), std::exp(static_cast<Real>(below)), 2));
  EXPECT_TRUE(std::isfinite(this->value({UnaryOp::exp}, below)));
  EXPECT_EQ(this->value({UnaryOp::exp}, static_cast<double>(highest) * 1.0001),
            std::numeric_limits<TypeParam>::infinity());
  EXPECT_EQ(this->value({UnaryOp::exp}, static_cast<double>(lowest) * 1.01), 0);
}

TYPED_TEST(Elementwise, DerivativesStayFiniteFarOut) {
  const std::vector<TypeParam> far{-1e30f, -1e4f, -1000, 1000, 1e4f, 1e30f};
  for (const UnaryOp op : {UnaryOp::tanh, UnaryOp::sigmoid, UnaryOp::softplus, UnaryOp::silu,
                           UnaryOp::gelu, UnaryOp::gelu_tanh, UnaryOp::elu}) {
    const Tensor x = misaligned(far), y = this->apply({op}, far), grad_x = x.empty_like();
    tested.elementwise->unary_backward({op}, x, y, placed::ones(x.shape(), x.dtype()), grad_x);
    const auto got = grad_x.template to_vector<TypeParam>();
    const bool saturates = op == UnaryOp::tanh || op == UnaryOp::sigmoid;
    for (std::size_t i = 0; i < far.size(); ++i)
      EXPECT_TRUE(near(got[i], far[i] > 0 && !saturates, 1))
          << static_cast<int>(op) << " at " << far[i];
  }
}

TYPED_TEST(Elementwise, ClampStopsTheGradientAtItsBounds) {
  const std::vector<TypeParam> x{-2, -1, 0, 2, 3};
  const Tensor in = placed::from(x, {5}), grad = placed::ones({5}, in.dtype());
  const Tensor out = in.empty_like();
  tested.elementwise->unary_backward({UnaryOp::clamp, -1, 2}, in, in, grad, out);
  EXPECT_EQ(out.template to_vector<double>(), (std::vector<double>{0, 0, 1, 0, 0}));
}

TYPED_TEST(Elementwise, ThreadsDoNotMatter) {
  const auto x = testing::random_values<TypeParam>(50001, -3, 3, 5);
  testing::expect_same_for_every_thread_count<TypeParam>(
      [&] { return this->apply({UnaryOp::gelu}, x); });
}

TEST(ElementwiseTypes, IntegersAreRefused) {
  const Tensor x = placed::zeros({3}, DType::i64);
  EXPECT_THROW(tested.elementwise->unary({UnaryOp::exp}, x, x), Error);
}

}  // namespace
}  // namespace mobius::elementwise_test
