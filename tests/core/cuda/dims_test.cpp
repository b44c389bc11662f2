// The parts into which views are cut for kernels: together they are the views.
#include "core/cuda/dims.h"

#include <gtest/gtest.h>

#include <map>

namespace mobius::cuda::dims_test {
namespace {

using Pairs = std::map<std::int64_t, std::int64_t>;  // the place in view 0, and in view 1

void add_pairs(const Dims<2>& dims, std::size_t dim, Offsets<2> at, Pairs& pairs) {
  if (dim == dims.size()) {
    EXPECT_TRUE(pairs.emplace(at[0], at[1]).second) << "element " << at[0] << " comes twice";
    return;
  }
  for (std::int64_t i = 0; i < dims[dim].size; ++i) {
    add_pairs(dims, dim + 1, at, pairs);
    for (std::size_t k = 0; k < 2; ++k) at[k] += dims[dim].strides[k];
  }
}

// Cuts the views, and returns the pairs of all parts.
Pairs pairs_of_parts(const Dims<2>& dims, std::int64_t limit, int& n_parts) {
  Pairs pairs;
  n_parts = 0;
  const auto add = [&](const Dims<2>& part, const Offsets<2>& offsets) {
    EXPECT_LE(part.size(), most_dims);
    EXPECT_TRUE(fits_in_32_bits(part, limit));
    add_pairs(part, 0, offsets, pairs);
    ++n_parts;
  };
  for_parts(dims, Offsets<2>{}, add, limit);
  return pairs;
}

void expect_same_elements(const Tensor& a, const Tensor& b, std::int64_t limit, bool is_cut) {
  const auto dims = dims_of(a, b);
  Pairs whole;
  add_pairs(dims, 0, {}, whole);
  EXPECT_EQ(std::ssize(whole), a.numel());
  int n_parts = 0;
  EXPECT_EQ(pairs_of_parts(dims, limit, n_parts), whole);
  EXPECT_EQ(n_parts > 1, is_cut);
}

TEST(Dims, FollowTheFirstViewAndMerge) {
  const Tensor x = Tensor::empty({4, 5, 6});
  EXPECT_EQ(dims_of(x, x).size(), 1u);
  const Tensor permuted = x.permute({2, 0, 1});
  ASSERT_EQ(dims_of(permuted, permuted).size(), 1u);
  EXPECT_EQ(dims_of(permuted, permuted)[0].strides[0], 1);
  EXPECT_EQ(dims_of(x, x.slice(0, 0, 1).expand({4, 5, 6})).size(), 2u);
  EXPECT_TRUE(dims_of(Tensor::empty({}), Tensor::empty({})).empty());
}

TEST(Dims, PartsAreTheViews) {
  const Tensor x = Tensor::empty({7, 11, 13});
  expect_same_elements(x, x, 2000, false);
  expect_same_elements(x, x, 100, true);
  expect_same_elements(x, x.transpose(0, 2).contiguous().transpose(0, 2), 50, true);
  expect_same_elements(x, Tensor::empty({11, 1}).expand({7, 11, 13}), 64, true);
}

TEST(Dims, ManyDimensionsAreCutToo) {
  const Tensor x = Tensor::empty(Shape(10, 2));
  expect_same_elements(x, x.permute({9, 8, 7, 6, 5, 4, 3, 2, 1, 0}), most_elements, true);
}

}  // namespace
}  // namespace mobius::cuda::dims_test
