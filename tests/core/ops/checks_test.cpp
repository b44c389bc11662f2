// Every operation refuses operands that do not fit, and numbers out of range, before it computes:
// what core/ops/ promises. Each line would otherwise read or write what is not there, hang, or
// give numbers that mean nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/ops.h"
#include "tests/device.h"
#include "tests/error_of.h"

namespace mobius::refusals_test {
namespace {

using ::testing::HasSubstr;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

struct Refusal {
  std::string part;  // of the message
  std::function<void()> call;
};

void expect_refused(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals)
    EXPECT_THAT(error_of(refusal.call), HasSubstr(refusal.part));
}

Tensor zeros(Shape shape, DType dtype = DType::f32) {
  return placed::zeros(std::move(shape), dtype);
}

AttentionInputs inputs_of(const Tensor& x) {
  AttentionInputs inputs;
  inputs.q = inputs.k = inputs.v = x;
  return inputs;
}

TEST(Refusals, OfBackwardPasses) {
  const Tensor x = zeros({2, 4}), w = zeros({4}), small = zeros({2, 3}),
               f64 = zeros({2, 4}, DType::f64);
  const Tensor statistic = zeros({2}, DType::f64), short_statistic = zeros({1}, DType::f64);
  const PolarResult points{x, zeros({2, 1})};
  expect_refused({
      {"unary_backward: y has shape", [=] { unary_backward({UnaryOp::exp}, x, small, x); }},
      {"unary_backward: grad_y has shape", [=] { unary_backward({UnaryOp::exp}, x, x, small); }},
      {"unary_backward: types f32 and f64", [=] { unary_backward({UnaryOp::exp}, x, x, f64); }},
      {"swiglu_backward: up", [=] { swiglu_backward(x, small, x); }},
      {"swiglu_backward: grad_out", [=] { swiglu_backward(x, x, small); }},
      {"softmax_backward: types", [=] { softmax_backward(x, f64, 1); }},
      {"rms_norm_backward: weight", [=] { rms_norm_backward(x, zeros({3}), statistic, x); }},
      {"rms_norm_backward: rstd", [=] { rms_norm_backward(x, w, short_statistic, x); }},
      {"rms_norm_backward: elements of type f32", [=] { rms_norm_backward(x, w, zeros({2}), x); }},
      {"layer_norm_backward: mean",
       [=] { layer_norm_backward(x, w, short_statistic, statistic, x); }},
      {"layer_norm_backward: rstd",
       [=] { layer_norm_backward(x, w, statistic, short_statistic, x); }},
      {"layer_norm_backward: grad_y",
       [=] { layer_norm_backward(x, w, statistic, statistic, small); }},
      {"polar_backward: length",
       [=] {
         polar_backward({x, zeros({1, 1})}, x, {});
       }},
      {"polar_backward: grad_direction", [=] { polar_backward(points, small, {}); }},
      {"polar_backward: grad_length", [=] { polar_backward(points, x, x); }},
      {"gaussian_points_backward: points", [=] { gaussian_points_backward(x, {}, small, x, {}); }},
      {"gaussian_points_backward: grad_points",
       [=] { gaussian_points_backward(x, {}, x, small, {}); }},
      {"gaussian_points_backward: grad_squared", [=] { gaussian_points_backward(x, {}, x, x, x); }},
  });
}

TEST(Refusals, OfNumbersOutOfRange) {
  const Tensor x = zeros({2, 4}), w = zeros({4});
  expect_refused({
      {"is no range", [=] { random_uniform({3}, 1, 0, {}); }},
      {"is no range", [=] { random_uniform({3}, 0, infinity, {}); }},
      {"standard deviation of -1", [=] { random_normal({3}, 0, -1, {}); }},
      {"mean of nan", [=] { random_normal({3}, nan, 1, {}); }},
      {"is not in [0, 1)", [=] { dropout(x, 1, {}); }},
      {"rms_norm: expected an eps", [=] { rms_norm(x, w, -1); }},
      {"layer_norm: expected an eps", [=] { layer_norm(x, w, w, nan); }},
      {"rope: expected a base above 0", [=] { rope(x, 0, 0); }},
      {"rope: expected a base above 0", [=] { rope(x, nan, 0); }},
      {"rope: expected a sign", [=] { rope(x, 10, 0, 2); }},
      {"gaussian_points: expected a rope_base", [=] { gaussian_points(x, {.rope_base = -1}); }},
      {"gaussian_points: expected a least_sigma",
       [=] { gaussian_points(x, {.least_sigma = nan}); }},
      {"a dimension is negative", [] { placed::arange(-1); }},
      {"a dimension is negative",
       [=] {
         scatter_add_rows(zeros({0, 3}), zeros({0}, DType::i64), -1);
       }},
  });
}

// Every operand of every operation is looked at: here by its type, each a wrong one.
TEST(Refusals, OfForeignTypes) {
  const Tensor x = zeros({2, 4}), w = zeros({4}), f64 = zeros({2, 4}, DType::f64);
  const Tensor whole = zeros({2, 4}, DType::i64), bytes = zeros({2, 4}, DType::u8);
  const Tensor whole_row = zeros({4}, DType::i64), row_f64 = zeros({4}, DType::f64);
  const Tensor statistic = zeros({2}, DType::f64), index = zeros({2}, DType::i64);
  const Tensor real_index = zeros({2}), byte_index = zeros({2}, DType::u8);
  const AttentionMask real_mask{.mask = zeros({4, 4})};
  const Tensor scalars = zeros({UpdateScalar::count}, DType::f64);
  const auto adamw_of = [scalars](const ParameterUpdate& update) {
    adamw({}, std::span(&update, 1), scalars);
  };
  const auto sgd_of = [scalars](const ParameterUpdate& update) {
    sgd({.momentum = 0.9, .weight_decay = 0, .nesterov = false}, std::span(&update, 1), scalars);
  };
  Tensor out = zeros({2, 2}, DType::f64), integers = zeros({3}, DType::i64);
  expect_refused({
      {"unary: elements of type i64", [=] { unary({UnaryOp::exp}, whole); }},
      {"unary: elements of type u8", [=] { unary({UnaryOp::exp}, zeros({0}, DType::u8)); }},
      {"unary: elements of type i64", [=] { affine(whole, 2, 1); }},
      {"unary_backward: elements of type", [=] { unary_backward({}, whole, whole, whole); }},
      {"unary_backward: types", [=] { unary_backward({}, x, f64, x); }},
      {"swiglu: elements of type", [=] { swiglu(bytes, bytes); }},
      {"swiglu: types", [=] { swiglu(x, f64); }},
      {"swiglu_backward: types", [=] { swiglu_backward(x, x, f64); }},
      {"add: types", [=] { add(x, whole); }},
      {"compare: types", [=] { compare(CompareOp::less, x, f64); }},
      {"where: elements of type i64", [=] { where(whole, x, x); }},
      {"where: types", [=] { where(bytes, x, f64); }},
      {"dropout: elements of type", [=] { dropout(whole, 0.5, {}); }},
      {"random_uniform: elements of type", [] { random_uniform({3}, 0, 1, {}, DType::i32); }},
      {"random_normal: elements of type", [] { random_normal({3}, 0, 1, {}, DType::bf16); }},
      {"sum: elements of type", [=] { sum(whole); }},
      {"max: elements of type", [=] { max(bytes, 0); }},
      {"argmax: elements of type", [=] { argmax(whole); }},
      {"sum_of_squares: elements of type", [=] { sum_of_squares(whole); }},
      {"cumsum: elements of type", [=] { cumsum(whole, 0); }},
      {"concat: types",
       [=] {
         concat({x, f64}, 0);
       }},
      {"matmul: elements of type", [=] { matmul(whole, whole.transpose(0, 1)); }},
      {"matmul: types", [=] { matmul(x, f64.transpose(0, 1)); }},
      {"matmul_add: out is f64", [=]() mutable { matmul_add(out, x, x.transpose(0, 1)); }},
      {"linear: elements of type", [=] { linear(whole, whole); }},
      {"linear: types", [=] { linear(x, x, statistic); }},
      {"masked_softmax: elements of type", [=] { masked_softmax(whole, 1, {}); }},
      {"masked_softmax: elements of type f32",
       [=] {
         masked_softmax(zeros({4, 4}), 1, real_mask);
       }},
      {"mask: elements of type f32", [=] { materialize_mask(real_mask, 4, 4); }},
      {"softmax_backward: elements of type", [=] { softmax_backward(whole, whole, 1); }},
      {"rms_norm: elements of type", [=] { rms_norm(whole, whole_row, 1); }},
      {"rms_norm: types", [=] { rms_norm(x, row_f64, 1); }},
      {"rms_norm_backward: types", [=] { rms_norm_backward(x, w, statistic, f64); }},
      {"layer_norm: types", [=] { layer_norm(x, w, row_f64, 1); }},
      {"layer_norm_backward: elements of type f32",
       [=] { layer_norm_backward(x, w, zeros({2}), statistic, x); }},
      {"polar: elements of type", [=] { polar(whole); }},
      {"polar_backward: types",
       [=] {
         polar_backward({x, zeros({2, 1})}, f64, {});
       }},
      {"gaussian_points: elements of type", [=] { gaussian_points(whole, {}); }},
      {"gaussian_points_backward: types", [=] { gaussian_points_backward(x, {}, x, f64, {}); }},
      {"rope: elements of type", [=] { rope(whole, 10, 0); }},
      {"gather_rows: elements of type f32", [=] { gather_rows(x, real_index); }},
      {"gather_rows: elements of type u8", [=] { gather_rows(x, byte_index); }},
      {"scatter_add_rows: elements of type f32", [=] { scatter_add_rows(x, real_index, 3); }},
      {"scatter_add_rows: elements of type i64", [=] { scatter_add_rows(whole, index, 3); }},
      {"cross_entropy: elements of type f32",
       [=] {
         cross_entropy(zeros({2, 4}), real_index);
       }},
      {"cross_entropy: elements of type i64",
       [=] {
         cross_entropy(zeros({2, 4}, DType::i64), index);
       }},
      {"log_hyp2f1: elements of type", [=] { log_hyp2f1(1, 1, 2, whole); }},
      {"adamw: elements of type",
       [=] {
         adamw_of({whole, whole, {whole, whole}});
       }},
      {"adamw: types",
       [=] {
         adamw_of({x, x, {x, f64}});
       }},
      {"adamw: the gradient",
       [=] {
         adamw_of({w, x, {x, x}});
       }},
      {"adamw: expected 2 moments, got 1",
       [=] {
         adamw_of({x, x, {x}});
       }},
      {"adamw: the scalars",
       [=] {
         const ParameterUpdate update = {x, x, {x, x}};
         adamw({}, std::span(&update, 1), zeros({2}, DType::f64));
       }},
      {"sgd: types",
       [=] {
         sgd_of({x, x, {f64}});
       }},
      {"sgd: a moment is not dense",
       [=] {
         const Tensor square = zeros({2, 2});
         sgd_of({square, square, {square.transpose(0, 1)}});
       }},
      {"clip_gradients: the scalars", [=] { clip_gradients(scalars, 1, zeros({2}, DType::f64)); }},
      {"clip_gradients: elements of type", [=] { clip_gradients(x, 1, scalars); }},
      {"sum_of_squares: an operand is not dense",
       [=] {
         const Tensor columns = zeros({2, 3}).transpose(0, 1);
         sum_of_squares(std::span(&columns, 1), zeros({1}, DType::f64));
       }},
      {"add_: types",
       [=]() mutable {
         out.add_(zeros({2, 2}));
       }},
      {"scale_: elements of type", [=]() mutable { integers.scale_(2); }},
      {"linear_attention: elements of type",
       [] {
         const Tensor q = zeros({1, 1, 2, 3}, DType::i64);
         linear_attention({.q = q, .k = q, .v = q});
       }},
      {"attention: elements of type",
       [] {
         attention({}, inputs_of(zeros({1, 1, 2, 3}, DType::i32)));
       }},
  });
}

TEST(Refusals, OfCopiesToTheHostOfWhatIsNotDense) {
  const Tensor square = zeros({2, 2}).transpose(0, 1);
  float host[4] = {};
  expect_refused(
      {{"copy_to_host: a [2, 2] that is not dense", [&] { copy_to_host(square, host); }},
       {"copy_from_host: a [2, 2] that is not dense", [&] { copy_from_host(host, square); }}});
}

TEST(Refusals, OfMasks) {
  const Tensor scores = zeros({3, 3});
  const std::vector<AttentionMask> masks = {{.window = -1},
                                            {.window = 2, .stride = -3},
                                            {.window = 2, .n_global = -1},
                                            {.stride = 2},
                                            {.n_global = 1}};
  for (const AttentionMask& mask : masks) {
    const char* part = mask.window == 0 ? "has no effect" : "may be negative";
    expect_refused({{part, [&] { masked_softmax(scores, 1, mask); }},
                    {part, [&] { materialize_mask(mask, 3, 3); }},
                    {part, [&] {
                       const Tensor x = zeros({1, 1, 3, 4});
                       attention({.mask = mask}, inputs_of(x));
                     }}});
  }
}

// A call cannot carry a number that its score map does not have.
TEST(Refusals, OfAttention) {
  const Tensor x = zeros({1, 2, 3, 4}), per_query = zeros({1, 2, 3}), distances = zeros({2, 5});
  const AttentionInputs plain = inputs_of(x);
  const auto with = [&](Tensor AttentionInputs::*member, const Tensor& value, bool is_sharp) {
    AttentionInputs in = plain;
    if (is_sharp) in.sharpness = per_query;
    in.*member = value;
    return in;
  };
  const AttentionSpec conformal{.score = ScoreMap::conformal};
  const auto attend = [](const AttentionSpec& spec, const AttentionInputs& in) {
    return [=] { attention(spec, in); };
  };
  expect_refused({
      {"conformal score map takes no key_bias",
       attend(conformal, with(&AttentionInputs::key_bias, per_query, true))},
      {"conformal score map takes no distance_bias",
       attend(conformal, with(&AttentionInputs::distance_bias, distances, true))},
      {"dot score map takes no log_factor",
       attend({}, with(&AttentionInputs::log_factor, per_query, false))},
      {"needs sharpness", attend(conformal, plain)},
      {"expected an exponent above 0", attend({.score = ScoreMap::conformal, .exponent = 0},
                                              with(&AttentionInputs::sharpness, per_query, true))},
      {"expected a finite scale", attend({.scale = infinity}, plain)},
      {"a dropout of 1", attend({.dropout = 1}, plain)},
      {"a dropout of -0.5", attend({.dropout = -0.5}, plain)},
      {"no form without normalisation", attend({.normalizer = WeightNormalizer::none}, plain)},
      {"linear_attention: expected an eps",
       [&] { linear_attention({.q = x, .k = x, .v = x, .eps = -1}); }},
      {"linear_attention: a lag and initial sums have no meaning with normalisation",
       [&] { linear_attention({.q = x, .k = x, .v = x, .causal = true, .lag = 1}); }},
      {"linear_attention: expected a lag of at least 0, and 0 unless causal, got 1",
       [&] { linear_attention({.q = x, .k = x, .v = x, .normalized = false, .lag = 1}); }},
      {"linear_attention: initial has shape [1, 2, 2, 4], expected [1, 2, 3, 4]",
       [&] {
         linear_attention(
             {.q = x, .k = x, .v = x, .normalized = false, .initial = x.slice(2, 0, 2)});
       }},
      {"linear_attention: an eps of 1 has no effect without normalisation",
       [&] { linear_attention({.q = x, .k = x, .v = x, .eps = 1, .normalized = false}); }},
  });
  const AttentionResult result = attention({}, plain);
  const LinearAttentionInputs linear{.q = x, .k = x, .v = x, .eps = 1};
  const LinearAttentionResult linear_result = linear_attention(linear);
  expect_refused({
      {"attention_backward: out",
       [&] {
         attention_backward({}, plain, {x.slice(2, 0, 2), result.lse}, x);
       }},
      {"attention_backward: lse",
       [&] {
         attention_backward({}, plain, {result.out, {}}, x);
       }},
      {"attention_backward: grad_out",
       [&] { attention_backward({}, plain, result, x.slice(2, 0, 2)); }},
      {"attention_backward: types",
       [&] { attention_backward({}, plain, result, x.to(DType::f64)); }},
      {"linear_attention_backward: denominator",
       [&] {
         linear_attention_backward(linear, {linear_result.out, {}}, x);
       }},
      {"linear_attention_backward: grad_out",
       [&] { linear_attention_backward(linear, linear_result, x.slice(2, 0, 2)); }},
  });
}

TEST(Refusals, AttentionChecksItsSelectedKeys) {
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
}  // namespace mobius::refusals_test
