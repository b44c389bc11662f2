#include "data/prepared_batch.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace mobius::prepared_batch_test {
namespace {

Tensor ids(const std::vector<std::int32_t>& values) {
  return Tensor::from(values, {2, std::ssize(values) / 2});
}

TEST(PreparedBatch, FindsTokensAndLabels) {
  const Batch batch{ids({1, 2, 3, 1}), ids({-100, 4, -100, 0}), {}, 0};
  const PreparedBatch prepared = prepare(batch, 5, Device{});
  EXPECT_EQ(prepared.tokens.shape(), (Shape{2, 2}));
  EXPECT_EQ(prepared.tokens.n_rows(), 5);
  EXPECT_EQ(prepared.labels.count(), 2);
  EXPECT_EQ(prepared.labels.n_scored(), 2);
  EXPECT_TRUE(prepared.tokens.values().shares_storage(batch.inputs)) << "an unnecessary copy";
}

TEST(PreparedBatch, RefusesWhatIsNotInTheVocabulary) {
  EXPECT_EQ(error_of([] {
              prepare({ids({1, 5}), ids({1, 1}), {}, 0}, 5, Device{});
            }),
            "batch: inputs: index 5 at position 1 is outside [0, 5)");
  EXPECT_EQ(error_of([] {
              prepare({ids({1, 4}), ids({5, 1}), {}, 0}, 5, Device{});
            }),
            "batch: label 5 at position 0 is outside [0, 5)");
  EXPECT_THROW(prepare({ids({1, 4}), ids({1, 4, 1, 4}), {}, 0}, 5, Device{}), ShapeError);
}

}  // namespace
}  // namespace mobius::prepared_batch_test
