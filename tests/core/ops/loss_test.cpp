// Cross-entropy and its in-place gradient against plain loops in long double.
#include <algorithm>

#include "core/ops.h"
#include "tests/core/ops/kernel_testing.h"

namespace mobius::loss_test {
namespace {

using testing::near;
using testing::random_tensor;

template <class T>
class CrossEntropy : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(CrossEntropy, Reals);

TYPED_TEST(CrossEntropy, LossGradientAndPrediction) {
  using T = TypeParam;
  for (const std::int64_t v : {1, 2, 7, 8, 15, 16, 17, 33, 1000, 5003}) {
    const Tensor logits = random_tensor<T>({5, v}, 1, -8, 8);
    const std::vector<std::int32_t> labels{0, static_cast<std::int32_t>(v - 1), ignored_label,
                                           static_cast<std::int32_t>(v / 2), 0};
    const std::vector<T> x = logits.to_vector<T>();
    const CrossEntropyResult result = cross_entropy(logits.clone(), placed::from(labels, {5}));
    const std::vector<double> losses = result.losses.to_vector<double>();
    const std::vector<std::int64_t> predictions = result.predictions.to_vector<std::int64_t>();
    const std::vector<T> grad = result.grad_logits.to_vector<T>();
    for (std::int64_t r = 0; r < 5; ++r) {
      const T* row = x.data() + r * v;
      const std::size_t at = static_cast<std::size_t>(r);
      EXPECT_EQ(predictions[at], std::max_element(row, row + v) - row);
      long double sum = 0;
      for (std::int64_t j = 0; j < v; ++j) sum += std::exp(static_cast<long double>(row[j]));
      const bool ignored = labels[at] == ignored_label;
      const long double loss = ignored ? 0 : std::log(sum) - row[labels[at]];
      // The sum of exponentials is in T: its relative error is the absolute one of the loss.
      const double epsilon = std::numeric_limits<T>::epsilon();
      EXPECT_NEAR(losses[at], static_cast<double>(loss), 40 * epsilon + 1e-15 * std::abs(loss));
      for (std::int64_t j = 0; j < v; ++j) {
        const long double p = std::exp(static_cast<long double>(row[j])) / sum;
        const long double want = ignored ? 0 : p - (j == labels[at] ? 1 : 0);
        ASSERT_TRUE(near(grad[static_cast<std::size_t>(r * v + j)], want, 60, p)) << r << " " << j;
      }
    }
  }
}

TYPED_TEST(CrossEntropy, FirstOfEqualLogitsIsPredicted) {
  using T = TypeParam;
  for (const std::int64_t first : {0, 5, 16, 30}) {
    std::vector<T> values(33, T{-1});
    values[static_cast<std::size_t>(first)] = values[31] = values[32] = T{2};
    const auto result = cross_entropy(placed::from(values, {1, 33}),
                                      placed::from(std::vector<std::int64_t>{ignored_label}, {1}));
    EXPECT_EQ(result.predictions.item(), static_cast<double>(first));
    EXPECT_EQ(result.losses.item(), 0);
    EXPECT_EQ(result.grad_logits.template to_vector<T>(), std::vector<T>(33, T{0}));
  }
}

TYPED_TEST(CrossEntropy, HugeLogits) {
  using T = TypeParam;
  const auto result = cross_entropy(placed::from(std::vector<T>{T(1e4), T(-1e4), T(0)}, {1, 3}),
                                    placed::from(std::vector<std::int64_t>{1}, {1}));
  EXPECT_EQ(result.losses.item(), 2e4);
  EXPECT_EQ(result.grad_logits.template to_vector<T>(), (std::vector<T>{T(1), T(-1), T(0)}));
}

TYPED_TEST(CrossEntropy, NaNReachesTheLoss) {
  using T = TypeParam;
  for (const std::size_t at : {0u, 4u, 18u}) {
    std::vector<T> values = testing::random_values<T>(19, -1, 1, 1);
    values[at] = std::numeric_limits<T>::quiet_NaN();
    const auto result = cross_entropy(placed::from(values, {1, 19}),
                                      placed::from(std::vector<std::int64_t>{3}, {1}));
    EXPECT_TRUE(std::isnan(result.losses.item())) << at;
  }
}

// Whoever looks at the gradient alone sees that the loss is not finite.
TYPED_TEST(CrossEntropy, GradientOfALossThatIsNotFiniteIsNotFinite) {
  using T = TypeParam;
  const T infinity = std::numeric_limits<T>::infinity();
  const auto result = cross_entropy(placed::from(std::vector<T>{T(0), -infinity}, {1, 2}),
                                    placed::from(std::vector<std::int64_t>{1}, {1}));
  EXPECT_EQ(result.losses.item(), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(result.grad_logits.template to_vector<T>()[1]));
}

TYPED_TEST(CrossEntropy, OfLabelsThatCountIsThatOfTheirRows) {
  using T = TypeParam;
  const Tensor logits = random_tensor<T>({4, 7}, 1);
  const Labels labels("test", placed::from(std::vector<std::int32_t>{-100, 3, 0, -100, 6, 2}, {6}),
                      7);
  for (const std::int64_t begin : {0, 2}) {
    const auto rows = logits.slice(0, begin, begin + 2);
    const auto result = cross_entropy(rows.clone(), labels, begin);
    const auto want = cross_entropy(rows.clone(), labels.values().slice(0, begin, begin + 2));
    EXPECT_EQ(result.losses.template to_vector<double>(), want.losses.template to_vector<double>());
    EXPECT_EQ(result.grad_logits.template to_vector<T>(), want.grad_logits.template to_vector<T>());
  }
  EXPECT_THROW(cross_entropy(random_tensor<T>({4, 8}, 1), labels), ShapeError);
}

TEST(CountCorrect, CountsScoredPredictionsThatAreRight) {
  const auto ids = [](const std::vector<std::int64_t>& values) {
    return placed::from(values, {std::ssize(values)});
  };
  const Tensor scored = placed::from(std::vector<std::uint8_t>{1, 1, 1, 0, 1}, {5});
  const Labels labels("test", ids({4, ignored_label, 5, 6, 0}), 7, scored);
  EXPECT_EQ(count_correct(ids({4, 2, 6, 0}), labels).item(), 2);
  EXPECT_EQ(count_correct(ids({6, 0}), labels, 2).item(), 1);
  EXPECT_EQ(count_correct(ids({}), labels, 4).item(), 0);
}

TYPED_TEST(CrossEntropy, SameBitsForEveryThreadCount) {
  using T = TypeParam;
  const Tensor logits = random_tensor<T>({64, 1031}, 1);
  std::vector<std::int64_t> labels(64);
  for (std::size_t r = 0; r < 64; ++r)
    labels[r] = r % 5 ? static_cast<std::int64_t>(r) : ignored_label;
  const Tensor label_tensor = placed::from(labels, {64});
  testing::expect_same_for_every_thread_count<double>(
      [&] { return cross_entropy(logits.clone(), label_tensor).losses; });
  testing::expect_same_for_every_thread_count<T>(
      [&] { return cross_entropy(logits.clone(), label_tensor).grad_logits; });
}

}  // namespace
}  // namespace mobius::loss_test
