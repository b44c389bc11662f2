#include "nn/attention/positions.h"

#include <gmock/gmock.h>

#include "tests/nn/nn_testing.h"

namespace mobius::positions_test {
namespace {

using ::testing::ElementsAre;

TEST(Alibi, SlopesAreGeometricForPowersOfTwoAndMixedBetween) {
  EXPECT_THAT(alibi_slopes(8),
              ElementsAre(1. / 2, 1. / 4, 1. / 8, 1. / 16, 1. / 32, 1. / 64, 1. / 128, 1. / 256));
  EXPECT_THAT(alibi_slopes(1), ElementsAre(1. / 256));
  // Those of 2 heads, then the first of 4.
  EXPECT_THAT(alibi_slopes(3), ElementsAre(1. / 16, 1. / 256, 1. / 4));
  EXPECT_THAT(alibi_slopes(6), ElementsAre(1. / 4, 1. / 16, 1. / 64, 1. / 256, 1. / 2, 1. / 8));
}

// Entry j - i + n_q - 1 of a row is that of query i, which stands at p = i + n_k - n_q, and key j.
TEST(DistanceBias, IsAFunctionOfTheDistance) {
  const std::int64_t n_q = 3, n_k = 7, max = 2;
  const std::vector<double> table = {-20, -10, 1, 10, 20};  // b[-2] ... b[2]
  const Tensor slopes = placed::from(alibi_slopes(2), {2, 1});
  const std::vector<double> alibi = alibi_bias(slopes, n_q, n_k).to_vector<double>();
  const Tensor relative = relative_bias(Variable(placed::from(table, {5})), 2, n_q, n_k).data();
  EXPECT_EQ(relative.shape(), (Shape{2, n_q + n_k - 1}));
  EXPECT_TRUE(relative.is_contiguous());
  const std::vector<double> learned = relative.to_vector<double>();
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t i = 0; i < n_q; ++i)
      for (std::int64_t j = 0; j < n_k; ++j) {
        const std::int64_t distance = i + n_k - n_q - j;
        const auto at = static_cast<std::size_t>(h * (n_q + n_k - 1) + j - i + n_q - 1);
        EXPECT_EQ(alibi[at],
                  -(h == 0 ? 1. / 16 : 1. / 256) * static_cast<double>(std::abs(distance)));
        EXPECT_EQ(learned[at],
                  table[static_cast<std::size_t>(std::clamp(distance, -max, max) + max)]);
      }
}

TEST(DistanceBias, RefusesATableWithoutAMiddle) {
  EXPECT_THROW(relative_bias(Variable(placed::zeros({4})), 1, 2, 2), ShapeError);
}

}  // namespace
}  // namespace mobius::positions_test
