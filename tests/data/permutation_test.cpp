#include "data/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "core/error.h"

namespace mobius::permutation_test {
namespace {

std::vector<std::uint64_t> items(std::uint64_t n, RngKey key) {
  const Permutation order(n, key);
  std::vector<std::uint64_t> result;
  for (std::uint64_t i = 0; i < n; ++i) result.push_back(order.at(i));
  return result;
}

TEST(Permutation, HoldsEveryItemOnce) {
  for (const std::uint64_t n : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4097}) {
    const std::vector<std::uint64_t> order = items(n, {1, n});
    const std::set<std::uint64_t> distinct(order.begin(), order.end());
    EXPECT_EQ(distinct.size(), n);
    EXPECT_EQ(*distinct.rbegin(), n - 1);
  }
  EXPECT_THROW(Permutation(0, {1, 1}), Error);
}

TEST(Permutation, DependsOnItsKeyAlone) {
  EXPECT_EQ(items(100, {1, 2}), items(100, {1, 2}));
  EXPECT_NE(items(100, {1, 2}), items(100, {1, 3}));
  EXPECT_NE(items(100, {1, 2}), items(100, {2, 2}));
}

// Over many keys, every item comes first about equally often, and neighbours are separated.
TEST(Permutation, LooksRandom) {
  constexpr std::uint64_t n = 10, keys = 20000;
  std::vector<int> first(n), gap(n);
  for (std::uint64_t key = 0; key < keys; ++key) {
    const Permutation order(n, {key, 5});
    const std::uint64_t a = order.at(0), b = order.at(1);
    ++first[a];
    ++gap[(b + n - a) % n];
  }
  const double expected = keys / static_cast<double>(n);
  for (const int count : first) EXPECT_NEAR(count, expected, 6 * std::sqrt(expected));
  EXPECT_EQ(gap[0], 0);
  for (std::uint64_t d = 1; d < n; ++d)
    EXPECT_NEAR(gap[d], keys / static_cast<double>(n - 1), 6 * std::sqrt(expected)) << d;
}

TEST(Permutation, OfMoreItemsThanMemoryHolds) {
  const Permutation order(std::uint64_t{1} << 60, {3, 4});
  EXPECT_LT(order.at(12345), std::uint64_t{1} << 60);
  EXPECT_NE(order.at(12345), order.at(12346));
}

}  // namespace
}  // namespace mobius::permutation_test
