#include "data/recall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "core/error.h"
#include "data/tasks.h"
#include "tests/data/batch_rows.h"

namespace mobius::recall_test {
namespace {

RecallOptions options_of(std::int32_t vocab, std::int64_t seq_len) {
  RecallOptions options;
  options.vocab = vocab;
  options.seq_len = seq_len;
  return options;
}

TEST(Recall, RepeatsItsTokensOnce) {
  const Batch batch = options_of(50, 20).build(1)->batch(Split::train, 3, 40);
  ASSERT_EQ(batch.inputs.shape(), (Shape{40, 19}));
  for (const Sequence& row : rows_of(batch)) {
    std::vector<std::int32_t> tokens = row.inputs;
    tokens.push_back(row.labels.back());
    for (std::size_t t = 0; t < 10; ++t) EXPECT_EQ(tokens[t], tokens[t + 10]);
    for (std::size_t t = 0; t < 19; ++t) EXPECT_EQ(row.labels[t], tokens[t + 1]);
  }
}

TEST(Recall, ScoresTheRepetitionOnly) {
  const Batch batch = options_of(50, 8).build(1)->batch(Split::test, 0, 2);
  const std::uint8_t* scored = batch.scored.data<std::uint8_t>();
  EXPECT_THAT(std::vector<int>(scored, scored + 14),
              ::testing::ElementsAre(0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1));
}

// A model that copies the token of L - 1 positions ago is right at every scored position. One that
// copies its neighbour, which would be right if labels were shifted twice or not at all, is not.
TEST(Recall, OnlyTheRightShiftIsAccurate) {
  const Batch batch = options_of(1 << 20, 64).build(1)->batch(Split::test, 0, 20);
  const auto copy_from = [](int distance) {
    return [distance](const Sequence& row, std::size_t t) {
      const auto source = static_cast<std::int64_t>(t) - distance;
      return source < 0 ? -1 : row.inputs[static_cast<std::size_t>(source)];
    };
  };
  EXPECT_EQ(accuracy(batch, copy_from(31)), 1);
  EXPECT_LT(accuracy(batch, copy_from(32)), 0.01);
  EXPECT_LT(accuracy(batch, copy_from(30)), 0.01);
}

TEST(NextToken, CountingIsPredictedByAddingOne) {
  std::vector<std::int32_t> tokens(11), inputs(10), labels(10);
  std::iota(tokens.begin(), tokens.end(), 100);
  split_next_token(tokens, inputs, labels);
  Batch batch;
  batch.inputs = Tensor::from(inputs, {1, 10});
  batch.labels = Tensor::from(labels, {1, 10});
  const auto add = [](int step) {
    return [step](const Sequence& row, std::size_t t) { return row.inputs[t] + step; };
  };
  EXPECT_EQ(accuracy(batch, add(0)), 0);
  EXPECT_EQ(accuracy(batch, add(1)), 1);
  EXPECT_EQ(accuracy(batch, add(2)), 0);
  EXPECT_EQ(inputs.front(), 100);
  EXPECT_EQ(labels.back(), 110);
}

TEST(Recall, LossFloorOfTheFirstHalf) {
  EXPECT_NEAR(options_of(1024, 128).build(1)->loss_floor().value(), 3.4384, 5e-5);
  EXPECT_EQ(options_of(1024, 2).build(1)->loss_floor().value(), 0);
}

TEST(Recall, TokensAreUniform) {
  std::vector<int> counts(4);
  for (const Sequence& row : rows_of(options_of(4, 64).build(2)->batch(Split::train, 0, 500)))
    for (std::size_t t = 0; t < 32; ++t) ++counts.at(row.inputs[t]);
  for (const int count : counts) EXPECT_NEAR(count, 4000, 5 * std::sqrt(16000 * 0.25 * 0.75));
}

TEST(Recall, SequencesDependOnSeedSplitAndIndexAlone) {
  const RecallOptions options = options_of(1000, 16);
  const auto task = options.build(3);
  const std::vector<Sequence> whole = rows_of(task->batch(Split::train, 5, 8));
  EXPECT_EQ(rows_of(options.build(3)->sequences(Split::train, 0, 40, 8)), whole);
  EXPECT_NE(rows_of(options.build(4)->sequences(Split::train, 0, 40, 8)), whole);
  std::set<Sequence> distinct;
  for (const Split split : {Split::train, Split::test})
    for (Sequence& row : rows_of(task->sequences(split, 0, 0, 1000)))
      distinct.insert(std::move(row));
  EXPECT_EQ(distinct.size(), 2000u);
}

// If this fails, the data have changed, and results are not comparable with earlier versions.
TEST(Recall, KnownSequence) {
  const auto rows = rows_of(options_of(64, 8).build(123)->sequences(Split::test, 0, 7, 1));
  EXPECT_THAT(rows[0].inputs, ::testing::ElementsAre(60, 13, 19, 45, 60, 13, 19));
  EXPECT_EQ(rows[0].labels.back(), 45);
}

TEST(RecallOptions, RefusesWhatDoesNotFit) {
  EXPECT_THROW(options_of(64, 7).build(1), ConfigError);
  EXPECT_THROW(options_of(64, 0).build(1), ConfigError);
  EXPECT_THROW(options_of(1, 8).build(1), ConfigError);
}

TEST(BuiltinTasks, BuildByName) {
  const Registry<TaskOptions> tasks = builtin_tasks();
  EXPECT_THAT(tasks.names(), ::testing::ElementsAre("mqar", "recall", "lm"));
  EXPECT_EQ(tasks.choose("mqar")->build(1)->vocab_size(), 8192);
  EXPECT_EQ(tasks.choose("recall")->build(1)->max_seq_len(), 127);
  EXPECT_THROW(tasks.choose("mqra"), ConfigError);
}

}  // namespace
}  // namespace mobius::recall_test
