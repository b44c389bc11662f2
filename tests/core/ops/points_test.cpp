// Vectors as directions and lengths, Gaussians as points: against long double, and the gradients at
// the places where the formulas break off.
#include "core/ops.h"
#include "tests/core/ops/kernel_testing.h"

namespace mobius::points_test {
namespace {

using testing::expect_same_for_every_thread_count;
using testing::near;
using testing::random_tensor;

using Real = long double;
using Reals = ::testing::Types<float, double>;

template <class T>
class Points : public ::testing::Test {};
TYPED_TEST_SUITE(Points, Reals);

template <class T>
Real length_of(const std::vector<T>& x, std::size_t begin, std::size_t n) {
  Real sum = 0;
  for (std::size_t i = begin; i < begin + n; ++i) sum += static_cast<Real>(x[i]) * x[i];
  return std::sqrt(sum);
}

TYPED_TEST(Points, PolarOfHeadsThatLieSideBySide) {
  using T = TypeParam;
  for (const std::int64_t d : {1, 2, 7, 16, 33, 64, 130, 2501}) {
    const Tensor heads = random_tensor<T>({2, 5, 3, d}, 1).transpose(1, 2);
    const PolarResult result = polar(heads);
    EXPECT_EQ(result.length.shape(), (Shape{2, 3, 5, 1}));
    const std::vector<T> x = heads.to_vector<T>(), unit = result.direction.to_vector<T>(),
                         length = result.length.to_vector<T>();
    const auto n = static_cast<std::size_t>(d);
    for (std::size_t r = 0; r < length.size(); ++r) {
      const Real want = length_of(x, r * n, n);
      ASSERT_TRUE(near(length[r], want, 8)) << d << " " << r;
      for (std::size_t i = r * n; i < (r + 1) * n; ++i)
        ASSERT_TRUE(near(unit[i], static_cast<Real>(x[i]) / want, 10)) << d << " " << i;
    }
  }
}

TYPED_TEST(Points, AZeroVectorHasNoDirection) {
  using T = TypeParam;
  const DType type = dtype_of<T>();
  const PolarResult zero = polar(placed::zeros({1, 3}, type));
  EXPECT_EQ(zero.direction.to_vector<double>(), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(zero.length.item(), 0);
  // Its length has a kink there, with gradient 0; its direction is x / least_length.
  const Tensor grad = placed::from(std::vector<T>{1, -2, 0}, {1, 3});
  const Tensor one = placed::ones({1, 1}, type);
  EXPECT_EQ(polar_backward(zero, {}, one).to_vector<double>(), (std::vector<double>{0, 0, 0}));
  const std::vector<T> steep = polar_backward(zero, grad, {}).template to_vector<T>();
  EXPECT_FLOAT_EQ(static_cast<float>(steep[0]), 1e12f);
  EXPECT_FLOAT_EQ(static_cast<float>(steep[1]), -2e12f);
}

TYPED_TEST(Points, GaussianPointsAreRotatedMeansAndDeviations) {
  using T = TypeParam;
  for (const std::int64_t d : {2, 6, 16, 34, 64}) {
    const Tensor x = random_tensor<T>({2, 9, 3, 2 * d}, 1, -30, 30).transpose(1, 2);
    for (const double base : {0.0, 10000.0}) {
      const GaussianPoints how{.rope_base = base, .offset = 5, .least_sigma = 1e-4};
      const auto [points, squared_length] = gaussian_points(x, how);
      const Tensor mu = x.slice(-1, 0, d), raw = x.slice(-1, d, 2 * d);
      const std::vector<T> want_mu = (base == 0 ? mu : rope(mu, base, 5)).template to_vector<T>(),
                           want_sigma = affine(unary({UnaryOp::softplus}, raw), 1, 1e-4)
                                            .template to_vector<T>(),
                           got_mu = points.slice(-1, 0, d).template to_vector<T>(),
                           got_sigma = points.slice(-1, d, 2 * d).template to_vector<T>(),
                           all = points.template to_vector<T>(),
                           squared = squared_length.template to_vector<T>();
      EXPECT_EQ(got_mu, want_mu) << d;
      for (std::size_t i = 0; i < want_sigma.size(); ++i)
        ASSERT_TRUE(near(got_sigma[i], want_sigma[i], 1)) << d << " " << i;
      const auto n = static_cast<std::size_t>(2 * d);
      for (std::size_t r = 0; r < squared.size(); ++r) {
        const Real length = length_of(all, r * n, n);
        ASSERT_TRUE(near(squared[r], length * length, 8)) << d << " " << r;
      }
    }
  }
}

TYPED_TEST(Points, ShapesThatDoNotFitAreRefused) {
  const DType type = dtype_of<TypeParam>();
  EXPECT_THROW(polar(placed::zeros({3}, type)), ShapeError);
  EXPECT_THROW(gaussian_points(placed::zeros({2, 3}, type), {}), ShapeError);
  EXPECT_THROW(gaussian_points(placed::zeros({2, 6}, type), {.rope_base = 10}), ShapeError);
}

TYPED_TEST(Points, EmptyAndThreads) {
  using T = TypeParam;
  EXPECT_EQ(polar(placed::empty({2, 0, 4}, dtype_of<T>())).length.numel(), 0);
  EXPECT_EQ(gaussian_points(placed::empty({0, 3, 4}, dtype_of<T>()), {}).points.numel(), 0);
  const Tensor x = random_tensor<T>({3, 900, 32}, 1), grad = random_tensor<T>({3, 900, 32}, 2);
  const Tensor grad_length = random_tensor<T>({3, 900, 1}, 3);
  const GaussianPoints how{.rope_base = 10000};
  expect_same_for_every_thread_count<T>([&] { return polar(x).direction; });
  expect_same_for_every_thread_count<T>(
      [&] { return polar_backward(polar(x), grad, grad_length); });
  expect_same_for_every_thread_count<T>([&] { return gaussian_points(x, how).points; });
  expect_same_for_every_thread_count<T>([&] {
    return gaussian_points_backward(x, how, gaussian_points(x, how).points, grad, grad_length);
  });
}

}  // namespace
}  // namespace mobius::points_test
