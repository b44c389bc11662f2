#include "core/row_index.h"

#include <gmock/gmock.h>

#include "core/labels.h"
#include "tests/error_of.h"

namespace mobius::row_index_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

template <class T>
std::vector<std::int64_t> numbers(const T& tensor) {
  return tensor.template to_vector<std::int64_t>();
}

Tensor ids(const std::vector<std::int32_t>& values, Shape shape) {
  return Tensor::from(values, std::move(shape));
}

TEST(RowIndex, SortsPositionsIntoOneBucketForEachRowThatOccurs) {
  const RowIndex index("test", ids({7, 2, 7, 0, 2, 7}, {2, 3}), 9);
  EXPECT_EQ(index.shape(), (Shape{2, 3}));
  EXPECT_EQ(index.n_rows(), 9);
  EXPECT_THAT(numbers(index.rows()), ElementsAre(0, 2, 7));
  EXPECT_THAT(numbers(index.offsets()), ElementsAre(0, 1, 3, 6));
  EXPECT_THAT(numbers(index.positions()), ElementsAre(3, 1, 4, 0, 2, 5));
}

TEST(RowIndex, OfNothingHasNoBucket) {
  const RowIndex index("test", Tensor::empty({0}, DType::i64), 3);
  EXPECT_THAT(numbers(index.rows()), IsEmpty());
  EXPECT_THAT(numbers(index.offsets()), ElementsAre(0));
}

TEST(RowIndex, ReadsViewsAsTheyAreSeen) {
  const RowIndex index("test", ids({0, 1, 2, 3, 4, 5}, {2, 3}).transpose(0, 1), 6);
  EXPECT_THAT(numbers(index.values()), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(numbers(index.positions()), ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(RowIndex, RefusesWhatIsNotInTheTable) {
  EXPECT_EQ(error_of([] {
              RowIndex("inputs", ids({0, 4}, {2}), 4);
            }),
            "inputs: index 4 at position 1 is outside [0, 4)");
  EXPECT_EQ(error_of([] { RowIndex("inputs", ids({-1}, {1}), 4); }),
            "inputs: index -1 at position 0 is outside [0, 4)");
  EXPECT_THROW(RowIndex("inputs", Tensor::ones({2}), 4), Error);
}

TEST(Labels, AreThoseThatAreNotIgnored) {
  const Labels labels("test", ids({-100, 3, 0, -100, 2, -100}, {2, 3}), 4);
  EXPECT_EQ(labels.count(), 3);
  EXPECT_EQ(labels.n_scored(), 3);
  EXPECT_EQ(labels.positions().n_rows(), 6);
  EXPECT_THAT(numbers(labels.positions().values()), ElementsAre(1, 2, 4));
  EXPECT_THAT(numbers(labels.values()), ElementsAre(3, 0, 2));
  EXPECT_THAT(numbers(labels.scored()), ElementsAre(1, 1, 1));
}

TEST(Labels, CountInTheAccuracyWhereTheyAreScored) {
  const Tensor scored = Tensor::from(std::vector<std::uint8_t>{1, 0, 1, 0}, {4});
  const Labels labels("test", ids({-100, 3, 0, 1}, {4}), 4, scored);
  EXPECT_EQ(labels.n_scored(), 1);
  EXPECT_THAT(numbers(labels.scored()), ElementsAre(0, 1, 0));
}

TEST(Labels, RefuseWhatIsNoClass) {
  EXPECT_EQ(error_of([] {
              Labels("batch", ids({-100, 5}, {2}), 5);
            }),
            "batch: label 5 at position 1 is outside [0, 5)");
  EXPECT_EQ(error_of([] {
              Labels("batch", ids({-1, 5}, {2}), 5);
            }),
            "batch: label -1 at position 0 is outside [0, 5)");
}

}  // namespace
}  // namespace mobius::row_index_test
