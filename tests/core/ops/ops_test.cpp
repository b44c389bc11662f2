// What core/ops adds to the kernels: shape checks, broadcasting, reductions over any dimensions.
#include "core/ops.h"

#include <gtest/gtest.h>

#include "tests/device.h"
#include "tests/error_of.h"

namespace mobius::ops_test {
namespace {

using Values = std::vector<double>;

Tensor counting(Shape shape) {
  return placed::arange(numel(shape), DType::f64).reshape(std::move(shape));
}

TEST(Ops, BinaryBroadcastsViews) {
  const Tensor x = counting({2, 3}), column = counting({2, 1});
  EXPECT_EQ(add(x, column).to_vector<double>(), (Values{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(mul(x.transpose(0, 1), column.reshape({2})).to_vector<double>(),
            (Values{0, 3, 0, 4, 0, 5}));
  EXPECT_EQ(error_of([&] {
              (void)add(x, counting({2, 2}));
            }),
            "add: shapes [2, 3] and [2, 2] do not broadcast");
  EXPECT_EQ(error_of([&] { (void)add(x, x.to(DType::f32)); }), "add: types f64 and f32 differ");
}

TEST(Ops, CompareAndWhere) {
  const Tensor x = counting({4}), two = placed::full({}, 2, DType::f64);
  const Tensor less = compare(CompareOp::less, x, two);
  EXPECT_EQ(less.to_vector<double>(), (Values{1, 1, 0, 0}));
  EXPECT_EQ(compare(CompareOp::less_equal, x, two).to_vector<double>(), (Values{1, 1, 1, 0}));
  EXPECT_EQ(compare(CompareOp::equal, x, two).to_vector<double>(), (Values{0, 0, 1, 0}));
  EXPECT_EQ(where(less, x, two).to_vector<double>(), (Values{0, 1, 2, 2}));
}

TEST(Ops, SumsOverAnyDimensions) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(sum(x).item(), 276);
  EXPECT_EQ(sum(x, {1}).to_vector<double>(), (Values{12, 15, 18, 21, 48, 51, 54, 57}));
  EXPECT_EQ(sum(x, {0, -1}).to_vector<double>(), (Values{60, 92, 124}));
  EXPECT_EQ(sum(x, {0, -1}, true).shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(sum(x.transpose(0, 2), {0}).to_vector<double>(),
            sum(x, {2}).transpose(0, 1).to_vector<double>());
  EXPECT_EQ(mean(x, {2}).to_vector<double>(), (Values{1.5, 5.5, 9.5, 13.5, 17.5, 21.5}));
  EXPECT_EQ(sum(placed::zeros({0, 3}), {0}).to_vector<double>(), Values(3, 0));
  EXPECT_EQ(sum_to(x, {3, 1}).to_vector<double>(), (Values{60, 92, 124}));
  EXPECT_EQ(error_of([&] { (void)sum(x, {3}); }), "sum: dimension 3 of a tensor with 3 dimensions");
}

TEST(Ops, MaxArgmaxCumsum) {
  const Tensor x = placed::from(Values{1, 5, 5, -1, 7, 2}, {2, 3});
  EXPECT_EQ(max(x, 0).to_vector<double>(), (Values{1, 7, 5}));
  EXPECT_EQ(max(x, 1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(argmax(x).to_vector<double>(), (Values{1, 1}));
  EXPECT_EQ(cumsum(x, 1).to_vector<double>(), (Values{1, 6, 11, -1, 6, 8}));
  EXPECT_EQ(cumsum(x, 0, true).to_vector<double>(), (Values{0, 12, 7, -1, 7, 2}));
}

TEST(Ops, ConcatJoinsViews) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(concat({x, x.slice(1, 0, 1)}, 1).to_vector<double>(), (Values{0, 1, 2, 0, 3, 4, 5, 3}));
  EXPECT_EQ(error_of([&] {
              (void)concat({x, counting({3, 2})}, 1);
            }),
            "concat: a part has shape [3, 2], expected [2, 2]");
}

TEST(Ops, MatmulChecksShapesAndBroadcastsBatches) {
  const Tensor a = counting({2, 1, 2, 3}), b = counting({4, 3, 2});
  const Tensor c = matmul(a, b);
  EXPECT_EQ(c.shape(), (Shape{2, 4, 2, 2}));
  EXPECT_EQ(c.slice(0, 1, 2).slice(1, 2, 3).to_vector<double>(),
            matmul(a.slice(0, 1, 2).reshape({2, 3}), b.slice(0, 2, 3).reshape({3, 2}))
                .to_vector<double>());
  EXPECT_EQ(error_of([&] {
              (void)matmul(counting({2, 3}), counting({2, 3}));
            }),
            "matmul: [2, 3] x [2, 3]: expected [..., M, K] x [..., K, N]");
  Tensor out = placed::ones({2, 2}, DType::f64);
  matmul_add(out, counting({2, 1}), counting({1, 2}));
  EXPECT_EQ(out.to_vector<double>(), (Values{1, 1, 1, 2}));
}

TEST(Ops, IndicesOutsideTheTableAreNamed) {
  const Tensor table = counting({4, 2});
  const Tensor index = placed::from(std::vector<std::int32_t>{1, 4}, {2});
  EXPECT_EQ(error_of([&] { (void)gather_rows(table, index); }),
            "gather_rows: index 4 at position 1 is outside [0, 4)");
  EXPECT_EQ(error_of([&] { (void)scatter_add_rows(table, index, 4); }),
            "scatter_add_rows: rows has shape [4, 2], expected [2, 2]");
}

TEST(Ops, MasksCombine) {
  const Tensor given = placed::from(std::vector<std::uint8_t>{1, 0, 1}, {1, 3});
  const Tensor allowed = materialize_mask({.causal = true, .mask = given}, 2, 3);
  EXPECT_EQ(allowed.to_vector<double>(), (Values{1, 0, 0, 1, 0, 1}));
  EXPECT_THROW(materialize_mask({.causal = true, .mask = placed::ones({4, 3}, DType::u8)}, 2, 3),
               ShapeError);
}

TEST(Ops, SelectedKeysCombineWithTheRestOfAMask) {
  const Tensor selected = placed::from(std::vector<std::int32_t>{0, 2, 1, 3}, {2, 2});
  EXPECT_EQ(materialize_mask({.selected = selected}, 2, 3).to_vector<double>(),
            (Values{1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(materialize_mask({.causal = true, .selected = selected}, 2, 3).to_vector<double>(),
            (Values{1, 0, 0, 0, 1, 0}));
  const Tensor scores = placed::ones({2, 3});
  EXPECT_EQ(masked_softmax(scores, 1, {.selected = selected}).to_vector<double>(),
            (Values{0.5, 0, 0.5, 0, 1, 0}));
}

TEST(Ops, AttentionChecksItsSelectedKeys) {
  const Tensor x = placed::ones({1, 2, 3, 4});
  AttentionInputs inputs;
  inputs.q = inputs.k = inputs.v = x;
  AttentionSpec spec;
  spec.mask.selected = placed::zeros({1, 2, 2, 4}, DType::i32);
  EXPECT_EQ(error_of([&] { attention(spec, inputs); }),
            "attention: shapes [1, 2, 2, 4] and [1, 2, 3, 4] do not broadcast");
  spec.mask.selected = placed::zeros({1, 2, 3, 4});
  EXPECT_EQ(error_of([&] { attention(spec, inputs); }),
            "attention: elements of type f32 are not supported here");
}

}  // namespace
}  // namespace mobius::ops_test
