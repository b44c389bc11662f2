// Copies between any two types and layouts, and fills.
#include <algorithm>
#include <limits>

#include "tests/core/ops/kernel_testing.h"
#include "tests/error_of.h"

namespace mobius::copy_test {
namespace {

using testing::counting;
using Values = std::vector<double>;

constexpr DType all_types[] = {DType::f32, DType::f64, DType::bf16,
                               DType::i32, DType::i64, DType::u8};

// Element i, in row-major order, of a view whose storage holds 0, 1, 2, ...: where it lies.
std::vector<std::int64_t> element_offsets(const Tensor& view) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i < view.numel(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (int dim = view.ndim() - 1; dim >= 0; --dim) {
      offset += rest % view.size(dim) * view.stride(dim);
      rest /= view.size(dim);
    }
    offsets.push_back(offset);
  }
  return offsets;
}

std::int64_t first_element(Tensor view) {
  for (int dim = 0; dim < view.ndim(); ++dim) view = view.slice(dim, 0, 1);
  return static_cast<std::int64_t>(view.item());
}

// A view of 0, 1, 2, ...: an element is the offset of its memory.
void expect_dense_copy(const Tensor& view, const char* name) {
  const Tensor out = placed::full(view.shape(), -1, view.dtype());
  tested.copy->copy(view, out);
  const std::int64_t first = first_element(view);
  const std::vector<std::int64_t> got = out.to_vector<std::int64_t>();
  const auto offsets = element_offsets(view);
  for (std::size_t i = 0; i < offsets.size(); ++i)
    ASSERT_EQ(got[i], first + offsets[i]) << name << " " << to_string(view.shape()) << " at " << i;
}

TEST(Copy, ReadsEveryLayout) {
  for (const std::int64_t n : {1, 2, 7, 31, 32, 33, 65, 200}) {
    const Tensor x = placed::arange(3 * n * 5).reshape({3, n, 5});
    expect_dense_copy(x, "dense");
    expect_dense_copy(x.transpose(0, 1), "outer transpose");
    expect_dense_copy(x.transpose(1, 2), "inner transpose");
    expect_dense_copy(x.transpose(0, 2), "reversed");
    expect_dense_copy(x.permute({2, 0, 1}), "permuted");
    expect_dense_copy(x.slice(1, n / 2, n), "slice");
    expect_dense_copy(x.slice(2, 1, 4).transpose(0, 2), "transposed slice");
    expect_dense_copy(x.slice(2, 2, 3).expand({3, n, 6}), "expanded last");
    expect_dense_copy(x.slice(0, 0, 1).expand({4, n, 5}).transpose(0, 2), "expanded first");
  }
  expect_dense_copy(placed::arange(1).reshape({}), "scalar");
  expect_dense_copy(
      placed::arange(1024).reshape(Shape(10, 2)).permute({9, 8, 7, 6, 5, 4, 3, 2, 1, 0}),
      "many dimensions");
}

TEST(Copy, WritesEveryLayoutAndNothingElse) {
  const Tensor source = placed::arange(40 * 35).reshape({40, 35});
  for (const bool transposed : {false, true}) {
    const Tensor whole = placed::full({42, 37}, -1, DType::i64);
    const Tensor target = whole.slice(0, 1, 41).slice(1, 1, 36);
    if (transposed)
      tested.copy->copy(source.transpose(0, 1), target.transpose(0, 1));
    else
      tested.copy->copy(source, target);
    const std::vector<std::int64_t> got = whole.to_vector<std::int64_t>();
    for (std::int64_t r = 0; r < 42; ++r) {
      for (std::int64_t c = 0; c < 37; ++c) {
        const bool inside = r >= 1 && r < 41 && c >= 1 && c < 36;
        ASSERT_EQ(got[static_cast<std::size_t>(r * 37 + c)], inside ? (r - 1) * 35 + c - 1 : -1)
            << r << " " << c;
      }
    }
  }
}

TEST(Copy, TransposesALargeMatrix) {
  const Tensor x = placed::arange(301 * 1007).reshape({301, 1007});
  expect_dense_copy(x.transpose(0, 1), "large");
  testing::expect_same_for_every_thread_count<std::int64_t>([&] {
    const Tensor out = placed::empty({1007, 301}, DType::i64);
    tested.copy->copy(x.transpose(0, 1), out);
    return out;
  });
}

TEST(Copy, ConvertsBetweenAllTypes) {
  for (const DType from : all_types) {
    for (const DType to : all_types) {
      for (const std::int64_t n : testing::ragged_sizes) {
        if (n > 200) continue;  // exact in bf16 and u8
        const Tensor source = placed::arange(n, from), out = placed::full({n}, 99, to);
        tested.copy->copy(source, out);
        EXPECT_EQ(out.to_vector<std::int64_t>(), placed::arange(n).to_vector<std::int64_t>())
            << name_of(from) << " to " << name_of(to);
      }
    }
  }
}

TEST(Copy, Bf16RoundsToNearestEvenAndKeepsNanAndInfinity) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values{1.00390625f, 1.01171875f, -1.004f, 3e38f, inf, -inf, NAN};
  const auto got = placed::from(values, {7}).to(DType::bf16).to_vector<float>();
  EXPECT_EQ(got[0], 1.0f);         // halfway: to the even neighbour below
  EXPECT_EQ(got[1], 1.015625f);    // halfway: to the even neighbour above
  EXPECT_EQ(got[2], -1.0078125f);  // beyond halfway
  EXPECT_NEAR(got[3], 3e38f, 3e38f / 256);
  EXPECT_EQ(got[4], inf);
  EXPECT_EQ(got[5], -inf);
  EXPECT_TRUE(std::isnan(got[6]));
}

TEST(Copy, ConvertsWhatItTransposes) {
  const Tensor x = placed::arange(37 * 70, DType::i32).reshape({37, 70}).transpose(0, 1);
  const Tensor out = placed::empty({70, 37}, DType::f64);
  tested.copy->copy(x, out);
  EXPECT_EQ(out.to_vector<double>(), x.contiguous().to_vector<double>());
}

TEST(Copy, TransposesElementsOfEverySize) {
  for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
    const Tensor x = placed::arange(2 * 15 * 8, dtype).reshape({2, 15, 8});
    const Tensor y = x.transpose(1, 2).contiguous();
    const auto from = x.to_vector<double>(), to = y.to_vector<double>();
    for (std::size_t i = 0; i < to.size(); ++i)
      ASSERT_EQ(to[i], from[i / 120 * 120 + i % 15 * 8 + i / 15 % 8]) << name_of(dtype) << " " << i;
  }
}

TEST(Copy, OfNothing) {
  const Tensor empty = placed::empty({3, 0, 2}), out = placed::empty({3, 0, 2}, DType::f64);
  tested.copy->copy(empty, out);
  tested.copy->fill(empty, 1);
  EXPECT_TRUE(empty.to_vector<float>().empty());
}

TEST(Copy, HostAndBack) {
  const std::vector<float> values = testing::random_values<float>(1001, -1, 1, 6);
  const Tensor x = placed::empty({1001});
  tested.copy->copy_from_host(values.data(), x);
  std::vector<float> back(1001);
  tested.copy->copy_to_host(x, back.data());
  EXPECT_TRUE(testing::same_bits(values, back));
}

TEST(Fill, EveryTypeAndLayout) {
  for (const DType dtype : all_types) {
    const Tensor whole = placed::full({6, 5}, 1, dtype);
    tested.copy->fill(whole.slice(1, 1, 3), 7);
    tested.copy->fill(whole.slice(0, 5, 6), 9);
    const auto got = whole.to_vector<double>();
    for (std::int64_t i = 0; i < 30; ++i) {
      const std::int64_t r = i / 5, c = i % 5;
      ASSERT_EQ(got[static_cast<std::size_t>(i)], r == 5             ? 9
                                                  : c == 1 || c == 2 ? 7
                                                                     : 1)
          << name_of(dtype);
    }
  }
}

TEST(Fill, Arange) {
  for (const DType dtype : all_types)
    EXPECT_EQ(placed::arange(4, dtype).to_vector<double>(), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(placed::arange(0).numel(), 0);
}

TEST(CopyOps, ConcatJoinsViews) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(concat({x, x.slice(1, 0, 1)}, 1).to_vector<double>(), (Values{0, 1, 2, 0, 3, 4, 5, 3}));
  EXPECT_EQ(error_of([&] {
              (void)concat({x, counting({3, 2})}, 1);
            }),
            "concat: a part has shape [3, 2], expected [2, 2]");
}

}  // namespace
}  // namespace mobius::copy_test
