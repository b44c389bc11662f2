#include <gtest/gtest.h>

#include "core/labels.h"
#include "tests/train/step_fixture.h"
#include "train/studies/recall/by_distance.h"

namespace mobius::recall_by_distance_test {

constexpr std::int32_t no = static_cast<std::int32_t>(ignored_label);

Batch batch_of(const std::vector<std::int32_t>& inputs, const std::vector<std::int32_t>& labels,
               std::int64_t n_rows) {
  const auto n = static_cast<std::int64_t>(inputs.size()) / n_rows;
  Batch batch;
  batch.inputs = Tensor::from(inputs, {n_rows, n});
  batch.labels = Tensor::from(labels, {n_rows, n});
  return batch;
}

// The model predicts the next number, so the labels tell which positions count as correct.
TEST(RecallByDistance, CountsByTheDistanceToTheFirstOccurrence) {
  const auto model = adding_model(/*vocab=*/8, /*seq_len=*/8, /*added=*/1);
  const Batch batch = batch_of({1, 6, 2, 7, 2, 0, 0, 1,   //
                                3, 5, 0, 3, 0, 0, 0, 0},  //
                               {no, no, no, no, 3, no, no, 2, no, no, no, 5, no, no, no, no}, 2);
  const std::vector<DistanceScore> scores = recall_by_distance(*model, batch, 4);
  ASSERT_EQ(scores.size(), 2u);
  EXPECT_EQ(scores[0].from, 0);
  EXPECT_EQ(scores[0].to, 4);
  EXPECT_EQ(scores[0].n_scored, 2);  // distances 2 and 3
  EXPECT_EQ(scores[0].n_correct, 1);
  EXPECT_EQ(scores[1].from, 4);
  EXPECT_EQ(scores[1].n_scored, 1);  // distance 7
  EXPECT_EQ(scores[1].accuracy(), 1);
}

TEST(RecallByDistance, LeavesOutDistancesWithoutLabels) {
  const auto model = adding_model(8, 8, 1);
  const Batch batch = batch_of({1, 2, 3, 4, 5, 6, 7, 1}, {no, no, no, no, no, no, no, 2}, 1);
  const std::vector<DistanceScore> scores = recall_by_distance(*model, batch, 2);
  ASSERT_EQ(scores.size(), 1u);
  EXPECT_EQ(scores[0].from, 6);
}

}  // namespace mobius::recall_by_distance_test
