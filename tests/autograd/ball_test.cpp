// The fused operations on queries in the ball against their composed forms, values and gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "autograd/ops.h"
#include "tests/device.h"
#include "tests/error_of.h"

namespace mobius::ball_test {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

Variable leaf(Shape shape, double low, double high, std::uint64_t stream, DType dtype) {
  return Variable(placed::random_uniform(std::move(shape), low, high, {1, stream}, dtype), true);
}

struct Radius {
  Variable r, one_minus_r, sharpness;
};

// docs/MATH.md, section 1, an operation at a time.
Radius composed_radius(const Variable& length, const Variable& alpha, const BallRadius& how) {
  const Variable beta = clamp(scale(alpha * length, how.factor), -infinite, how.largest_beta);
  const Variable h = sqrt(affine(square(beta), 1, how.s * how.s));
  const Variable r = beta / affine(h, 1, how.s);
  return {r, affine(r, -1, 1), scale(r, 2) / affine(square(r), 1, 1)};
}

Variable composed_log_factor(const Variable& r, const Variable& one_minus_r, const Tensor& counts,
                             const BallLogFactor& how) {
  const Variable g = scale(log(one_minus_r), how.one_minus_r) + scale(log1p(r), how.one_plus_r) -
                     scale(log1p(square(r)), how.s);
  const Variable per_query = reshape(g, {g.size(0), g.size(1), g.size(2)});
  const Tensor at_least_one = unary({UnaryOp::clamp, 1, infinite}, counts);
  return per_query - Variable(unary({UnaryOp::log}, at_least_one));
}

void expect_near(const Tensor& got, const Tensor& want, double tolerance, const char* what) {
  ASSERT_EQ(got.shape(), want.shape()) << what;
  const std::vector<double> x = got.to_vector<double>(), y = want.to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(x[i], y[i], tolerance * std::max(1.0, std::abs(y[i]))) << what << " at " << i;
}

template <class T>
class Ball : public ::testing::Test {
 protected:
  static constexpr DType dtype = dtype_of<T>();
  static constexpr double tolerance = sizeof(T) == 4 ? 2e-5 : 1e-12;

  // Compares the values of two results, and the gradients of their inputs.
  static void expect_equal(const std::vector<Variable>& leaves,
                           const std::function<Variable()>& fused,
                           const std::function<Variable()>& composed) {
    const auto gradients = [&](const Variable& out) {
      for (Variable leaf_of : leaves) leaf_of.zero_grad();
      backward(out, placed::random_normal(out.shape(), 0, 1, {1, 99}, dtype));
      std::vector<Tensor> grads;
      for (const Variable& x : leaves) grads.push_back(x.grad().clone());
      return grads;
    };
    const Variable got = fused(), want = composed();
    expect_near(got.data(), want.data(), tolerance, "value");
    const std::vector<Tensor> of_got = gradients(got), of_want = gradients(want);
    for (std::size_t i = 0; i < leaves.size(); ++i)
      expect_near(of_got[i], of_want[i], 20 * tolerance, "gradient");
  }
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Ball, Types);

TYPED_TEST(Ball, RadiusEqualsItsComposedForm) {
  // A row of 300 is longer than a block of threads; the cap acts on some of the lengths.
  for (const std::int64_t n : {1, 7, 300}) {
    for (const Shape& of_alpha : {Shape{}, Shape{3, 1, 1}, Shape{2, 3, 1, 1}, Shape{2, 1, 1, 1}}) {
      const Variable length = leaf({2, 3, n, 1}, 0, 4, 1, this->dtype);
      const Variable alpha = leaf(of_alpha, 0.5, 3, 2, this->dtype);
      const BallRadius how{.s = 2.5, .factor = 0.7, .largest_beta = 5};
      for (const auto member : {&Radius::r, &Radius::one_minus_r, &Radius::sharpness}) {
        this->expect_equal(
            {length, alpha},
            [&] {
              const auto [r, one_minus_r, sharpness] = ball_radius(length, alpha, how);
              return Radius{r, one_minus_r, sharpness}.*member;
            },
            [&] { return composed_radius(length, alpha, how).*member; });
      }
    }
  }
}

TYPED_TEST(Ball, LogFactorEqualsItsComposedForm) {
  for (const std::int64_t n : {1, 7, 300}) {
    for (const Shape& of_counts : {Shape{1}, Shape{n}, Shape{2, 3, n}, Shape{2, 1, n}}) {
      const Variable r = leaf({2, 3, n, 1}, 0.01, 0.95, 3, this->dtype);
      const Variable one_minus_r = leaf({2, 3, n, 1}, 0.05, 0.99, 4, this->dtype);
      const Tensor counts = placed::random_uniform(of_counts, 0, 9, {1, 5}, this->dtype);
      const BallLogFactor how{.s = 1.5, .one_minus_r = 3, .one_plus_r = -0.5};
      this->expect_equal(
          {r, one_minus_r}, [&] { return ball_log_factor(r, one_minus_r, counts, how); },
          [&] { return composed_log_factor(r, one_minus_r, counts, how); });
    }
  }
}

TEST(BallRadius, KeepsTheDigitsOfADistanceToTheSphere) {
  const Tensor length = placed::full({1, 1}, 1e9, DType::f64);
  const BallRadiusResult point = ball_radius(length, {}, {.s = 1, .largest_beta = infinite});
  EXPECT_NEAR(point.one_minus_r.item(), 1e-9, 1e-18);  // 1 - r of the rounded r is off by 1e-16
}

TEST(BallRadius, RefusesWhatHasNoRadius) {
  const Tensor length = placed::ones({2, 3, 4, 1}), wide = placed::ones({2, 3, 4, 2});
  const auto error = [](const std::function<void()>& call) { return error_of(call); };
  EXPECT_EQ(error([&] { ball_radius(wide, {}, {}); }),
            "ball_radius: [2, 3, 4, 2]: expected [..., n, 1]");
  EXPECT_EQ(error([&] { ball_radius(length, {}, {.s = 0}); }),
            "ball_radius: expected an exponent s above 0, got 0");
  EXPECT_EQ(error([&] {
              ball_radius(length, placed::ones({4, 1}), {});
            }),
            "ball_radius: alpha [4, 1] for lengths [2, 3, 4, 1]: expected [..., 1, 1]");
  EXPECT_EQ(error([&] { ball_log_factor(length, length, placed::ones({5}), {}); }),
            "ball_log_factor: shapes [5] and [2, 3, 4] do not broadcast");
}

}  // namespace
}  // namespace mobius::ball_test
