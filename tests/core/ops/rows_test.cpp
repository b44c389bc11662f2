// Gathering rows by index and adding them back.
#include "core/ops.h"
#include "tests/core/ops/kernel_testing.h"
#include "tests/error_of.h"

namespace mobius::rows_test {
namespace {

using testing::counting;
using testing::expect_same_for_every_thread_count;
using testing::random_tensor;

template <class I>
Tensor random_indices(std::int64_t n, std::int64_t below, std::uint64_t seed) {
  std::vector<I> values;
  for (const double u : testing::random_values<double>(n, 0, static_cast<double>(below), seed))
    values.push_back(static_cast<I>(u));
  return placed::from(values, {n});
}

template <class T>
class Rows : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Rows, Reals);

TYPED_TEST(Rows, GatherTakesTheRows) {
  using T = TypeParam;
  for (const std::int64_t d : {1, 7, 16, 33}) {
    const Tensor table = random_tensor<T>({11, d}, 1);
    const Tensor index = random_indices<std::int32_t>(24, 11, 2).reshape({2, 3, 4});
    const Tensor out = gather_rows(table, index);
    ASSERT_EQ(out.shape(), (Shape{2, 3, 4, d}));
    const std::vector<T> from = table.to_vector<T>(), got = out.to_vector<T>();
    const std::vector<std::int64_t> rows = index.to_vector<std::int64_t>();
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::int64_t j = 0; j < d; ++j)
        ASSERT_EQ(got[r * static_cast<std::size_t>(d) + static_cast<std::size_t>(j)],
                  from[static_cast<std::size_t>(rows[r] * d + j)]);
  }
}

TYPED_TEST(Rows, ScatterAddsInTheOrderOfRows) {
  using T = TypeParam;
  for (const std::int64_t v : {1, 2, 7, 8, 9, 100})
    for (const std::int64_t d : {1, 16, 65, 129, 200}) {
      const Tensor index = random_indices<std::int64_t>(150, v, 1);
      const Tensor rows = random_tensor<T>({150, d}, 2);
      Tensor table = random_tensor<T>({v, d}, 3);
      std::vector<T> want = table.to_vector<T>();
      const std::vector<T> from = rows.to_vector<T>();
      const std::vector<std::int64_t> at = index.to_vector<std::int64_t>();
      for (std::size_t r = 0; r < at.size(); ++r)
        for (std::int64_t j = 0; j < d; ++j)
          want[static_cast<std::size_t>(at[r] * d + j)] +=
              from[r * static_cast<std::size_t>(d) + static_cast<std::size_t>(j)];
      tested.rows->scatter_add_rows(rows, RowIndex("test", index, v), table);
      ASSERT_EQ(table.to_vector<T>(), want) << v << " " << d;  // the same additions, the same bits
    }
}

TYPED_TEST(Rows, EmptyAndThreads) {
  using T = TypeParam;
  const DType type = dtype_of<T>();
  EXPECT_EQ(gather_rows(placed::ones({3, 2}, type), placed::empty({0}, DType::i64)).numel(), 0);
  const Tensor nothing =
      scatter_add_rows(placed::empty({0, 2}, type), placed::empty({0}, DType::i32), 3);
  EXPECT_EQ(nothing.to_vector<T>(), std::vector<T>(6, T{0}));
  const Tensor index = random_indices<std::int32_t>(5000, 40, 1),
               rows = random_tensor<T>({5000, 70}, 2);
  expect_same_for_every_thread_count<T>([&] { return scatter_add_rows(rows, index, 40); });
}

TEST(RowsOps, IndicesOutsideTheTableAreNamed) {
  const Tensor table = counting({4, 2});
  const Tensor index = placed::from(std::vector<std::int32_t>{1, 4}, {2});
  EXPECT_EQ(error_of([&] { (void)gather_rows(table, index); }),
            "gather_rows: index 4 at position 1 is outside [0, 4)");
  EXPECT_EQ(error_of([&] { (void)scatter_add_rows(table, index, 4); }),
            "scatter_add_rows: index 4 at position 1 is outside [0, 4)");
}

}  // namespace
}  // namespace mobius::rows_test
