#include "train/recording/score.h"

#include <gtest/gtest.h>

namespace mobius::score_test {
namespace {

// A mean of means would be 6.
TEST(Score, AddsSumsAndCountsNotMeans) {
  Score score{.loss_sum = 2, .n_labels = 1, .n_correct = 1, .n_scored = 1};
  score += {.loss_sum = 90, .n_labels = 9, .n_correct = 4, .n_scored = 9};
  EXPECT_DOUBLE_EQ(score.loss(), 9.2);
  EXPECT_DOUBLE_EQ(score.accuracy(), 0.5);
}

TEST(Score, WithoutLabelsIsZeroNotNan) {
  Score score;
  EXPECT_EQ(score.loss(), 0);
  EXPECT_EQ(score.accuracy(), 0);
  score += {.loss_sum = 3, .n_labels = 2, .n_correct = 1, .n_scored = 2};
  score += {};
  EXPECT_DOUBLE_EQ(score.loss(), 1.5);
  EXPECT_DOUBLE_EQ(score.accuracy(), 0.5);
}

TEST(Score, LowerLossAndHigherAccuracyAreBetter) {
  EXPECT_TRUE(is_better(Metric::loss, 1, 2));
  EXPECT_FALSE(is_better(Metric::loss, 2, 2));
  EXPECT_TRUE(is_better(Metric::accuracy, 0.9, 0.8));
  EXPECT_FALSE(is_better(Metric::accuracy, 0.8, 0.8));
}

}  // namespace
}  // namespace mobius::score_test
