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

// A frequent row may be added up in parts: of whole numbers, the sum is exact in any order.
TYPED_TEST(Rows, ScatterAddsManyRowsToOne) {
  using T = TypeParam;
  constexpr std::int64_t n = 1500, v = 9;
  std::vector<std::int64_t> at(static_cast<std::size_t>(n));
  for (std::int64_t r = 0; r < n; ++r)
    at[static_cast<std::size_t>(r)] = r % 5 == 0 ? r % v : 3 + r % 2;
  const Tensor index = placed::from(at, {n});
  for (const std::int64_t d : {1, 3, 130}) {
    std::vector<T> rows(static_cast<std::size_t>(n * d)),
        want(static_cast<std::size_t>(v * d), T{1});
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<T>(i % 23) - 11;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto r = i / static_cast<std::size_t>(d), j = i % static_cast<std::size_t>(d);
      want[static_cast<std::size_t>(at[r] * d) + j] += rows[i];
    }
    const Tensor table = placed::ones({v, d}, dtype_of<T>());
    tested.rows->scatter_add_rows(placed::from(rows, {n, d}), RowIndex("test", index, v), table);
    EXPECT_EQ(table.to_vector<T>(), want) << d;
  }
}

TYPED_TEST(Rows, GathersRowsOfEveryTypeFromAnyElementOn) {
  using T = TypeParam;
  const Tensor index = random_indices<std::int32_t>(13, 5, 1);
  const std::vector<std::int64_t> rows = index.to_vector<std::int64_t>();
  for (const DType type : {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8})
    for (const std::int64_t d : {1, 2, 8, 16, 33})
      for (const std::int64_t offset : {0, 1}) {
        const Tensor values = random_tensor<T>({5 * d + 1}, 2, 0, 100).to(type);
        const Tensor table = values.slice(0, offset, offset + 5 * d).reshape({5, d});
        const std::vector<double> from = table.to_vector<double>();
        const std::vector<double> got = gather_rows(table, index).template to_vector<double>();
        for (std::size_t i = 0; i < got.size(); ++i) {
          const auto r = i / static_cast<std::size_t>(d), j = i % static_cast<std::size_t>(d);
          ASSERT_EQ(got[i], from[static_cast<std::size_t>(rows[r] * d) + j]) << d << " " << offset;
        }
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
