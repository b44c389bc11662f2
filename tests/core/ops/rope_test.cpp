// Rotary embedding against rotations computed in long double.
#include "core/ops.h"
#include "tests/core/ops/kernel_testing.h"

namespace mobius::rope_test {
namespace {

using testing::expect_same_for_every_thread_count;
using testing::near;
using testing::random_tensor;

template <class T>
void expect_rotated(const Tensor& x_tensor, double base, std::int64_t offset, int sign) {
  const std::int64_t n = x_tensor.size(-2), d = x_tensor.size(-1), half = d / 2;
  const std::vector<T> x = x_tensor.to_vector<T>();
  const std::vector<T> y = rope(x_tensor, base, offset, sign).to_vector<T>();
  ASSERT_EQ(x.size(), y.size());
  for (std::int64_t row = 0; row * d < x_tensor.numel(); ++row)
    for (std::int64_t t = 0; t < half; ++t) {
      const long double position = static_cast<long double>(offset + row % n);
      const long double angle =
          sign * position * std::pow(static_cast<long double>(base), -2.0L * t / d);
      const std::size_t at = static_cast<std::size_t>(row * d + t),
                        pair = at + static_cast<std::size_t>(half);
      const long double a = x[at], b = x[pair], size = std::abs(a) + std::abs(b);
      // The angle is rounded to double: what that moves grows with the position.
      const double ulps = 2 + (sizeof(T) == 8 ? 2 * static_cast<double>(position)
                                              : 1e-8 * static_cast<double>(position));
      ASSERT_TRUE(near(y[at], a * std::cos(angle) - b * std::sin(angle), ulps, size))
          << row << " " << t;
      ASSERT_TRUE(near(y[pair], a * std::sin(angle) + b * std::cos(angle), ulps, size))
          << row << " " << t;
    }
}

template <class T>
class Rope : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Rope, Reals);

TYPED_TEST(Rope, RaggedDimensionsBothWays) {
  for (const std::int64_t d : {2, 4, 14, 16, 18, 30, 34, 64, 130})
    for (const int sign : {1, -1})
      expect_rotated<TypeParam>(random_tensor<TypeParam>({2, 3, 9, d}, 1), 10000, 5, sign);
}

TYPED_TEST(Rope, FarPositions) {
  expect_rotated<TypeParam>(random_tensor<TypeParam>({4, 8}, 1), 10000, 1000000, 1);
  expect_rotated<TypeParam>(random_tensor<TypeParam>({4, 8}, 1), 500000, 7, 1);
}

TYPED_TEST(Rope, HeadsSplitFromARowAndSlices) {
  using T = TypeParam;
  const Tensor packed = random_tensor<T>({2, 7, 3, 12}, 1);  // [B, N, H, d]
  expect_rotated<T>(packed.transpose(1, 2), 10000, 0, 1);
  expect_rotated<T>(packed.transpose(1, 2).slice(3, 1, 11), 10000, 0, 1);
  expect_rotated<T>(packed.transpose(1, 2).slice(2, 2, 5), 10000, 3, -1);
}

TYPED_TEST(Rope, TheOppositeSignUndoesIt) {
  using T = TypeParam;
  const Tensor x = random_tensor<T>({3, 50, 16}, 1);
  const std::vector<T> want = x.to_vector<T>();
  const std::vector<T> got = rope(rope(x, 10000, 3, 1), 10000, 3, -1).to_vector<T>();
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_TRUE(near(got[i], want[i], 4, 4));
}

TYPED_TEST(Rope, EmptyAndThreads) {
  using T = TypeParam;
  EXPECT_EQ(rope(placed::empty({2, 0, 4}, dtype_of<T>()), 10000, 0).numel(), 0);
  const Tensor x = random_tensor<T>({3, 900, 32}, 1);
  expect_same_for_every_thread_count<T>([&] { return rope(x, 10000, 0); });
}

}  // namespace
}  // namespace mobius::rope_test
