// Every differentiable op against central differences in f64. Each case is one line: a name, a
// function, and its inputs; shapes are ragged and broadcast on purpose.
#include "tests/autograd/gradcheck.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops.h"
#include "tests/autograd/losses.h"
#include "tests/device.h"

namespace mobius::gradcheck_test {
namespace {

using Inputs = std::vector<Variable>;

struct Case {
  std::string name;
  std::function<Variable(const Inputs&)> f;
  std::vector<Tensor> inputs;
};

Tensor randn(Shape shape, std::uint64_t stream, double shift = 0) {
  return placed::random_normal(std::move(shape), shift, 1, {5, stream}, DType::f64);
}

// Values in [low, high], for functions with a bounded domain or a kink elsewhere.
Tensor uniform(Shape shape, double low, double high, std::uint64_t stream = 1) {
  return placed::random_uniform(std::move(shape), low, high, {6, stream}, DType::f64);
}

Tensor mask_3x5() {
  return placed::from(std::vector<std::uint8_t>{1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1},
                      {3, 5});
}

Tensor indices(std::vector<std::int64_t> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return placed::from(values, {n});
}

Case unary_case(const std::string& name, Unary f, Tensor x) {
  return {name, [f](const Inputs& in) { return unary(f, in[0]); }, {std::move(x)}};
}

std::vector<Case> elementwise_cases() {
  const Tensor a = randn({2, 3, 5}, 1), b = randn({3, 1}, 2), c = randn({5}, 3);
  const Tensor positive = uniform({3, 5}, 0.5, 2), signed_x = randn({3, 5}, 4);
  const double inf = HUGE_VAL;
  return {
      {"add", [](const Inputs& in) { return in[0] + in[1]; }, {a, b}},
      {"add_same", [](const Inputs& in) { return in[0] + in[0]; }, {a}},
      {"sub", [](const Inputs& in) { return in[1] - in[0]; }, {a, c}},
      {"mul", [](const Inputs& in) { return in[0] * in[1]; }, {b, c}},
      {"div", [](const Inputs& in) { return in[0] / in[1]; }, {signed_x, positive}},
      {"div_broadcast", [](const Inputs& in) { return in[0] / in[1]; }, {c, positive}},
      {"maximum", [](const Inputs& in) { return maximum(in[0], in[1]); }, {a, b}},
      {"minimum", [](const Inputs& in) { return minimum(in[0], in[1]); }, {a, b}},
      {"swiglu", [](const Inputs& in) { return swiglu(in[0], in[1]); }, {a, randn({2, 3, 5}, 5)}},
      {"affine", [](const Inputs& in) { return affine(in[0], -2.5, 0.5); }, {a}},
      {"where", [](const Inputs& in) { return where(mask_3x5(), in[0], in[1]); }, {a, c}},
      {"dropout",
       [](const Inputs& in) {
         return dropout(in[0], 0.4, {1, 2});
       },
       {a}},
      {"log_hyp2f1",
       [](const Inputs& in) { return log_hyp2f1(2.5, 2.0, 1.5, in[0]); },
       {uniform({7}, 0.05, 0.9)}},
      unary_case("exp", {UnaryOp::exp}, signed_x),
      unary_case("log", {UnaryOp::log}, positive),
      unary_case("log1p", {UnaryOp::log1p}, positive),
      unary_case("sqrt", {UnaryOp::sqrt}, positive),
      unary_case("rsqrt", {UnaryOp::rsqrt}, positive),
      unary_case("reciprocal", {UnaryOp::reciprocal}, positive),
      unary_case("square", {UnaryOp::square}, signed_x),
      unary_case("power_real", {UnaryOp::power, 2.5}, positive),
      unary_case("power_integer", {UnaryOp::power, 3}, signed_x),
      unary_case("power_negative", {UnaryOp::power, -2}, positive),
      unary_case("sin", {UnaryOp::sin}, signed_x),
      unary_case("cos", {UnaryOp::cos}, signed_x),
      unary_case("tanh", {UnaryOp::tanh}, signed_x),
      unary_case("sigmoid", {UnaryOp::sigmoid}, signed_x),
      unary_case("softplus", {UnaryOp::softplus}, signed_x),
      unary_case("relu", {UnaryOp::relu}, signed_x),
      unary_case("silu", {UnaryOp::silu}, signed_x),
      unary_case("gelu", {UnaryOp::gelu}, signed_x),
      unary_case("gelu_tanh", {UnaryOp::gelu_tanh}, signed_x),
      unary_case("elu", {UnaryOp::elu}, signed_x),
      unary_case("elu_plus_one", {UnaryOp::elu_plus_one}, signed_x),
      unary_case("clamp", {UnaryOp::clamp, -0.5, 0.7}, signed_x),
      unary_case("clamp_one_side", {UnaryOp::clamp, -inf, 0.7}, signed_x),
  };
}

std::vector<Case> reduction_and_shape_cases() {
  const Tensor x = randn({2, 3, 5}, 7), y = randn({2, 4, 5}, 8);
  return {
      {"sum_all", [](const Inputs& in) { return sum(in[0]); }, {x}},
      {"sum_outer", [](const Inputs& in) { return sum(in[0], {0}); }, {x}},
      {"sum_apart",
       [](const Inputs& in) {
         return sum(in[0], {0, -1}, true);
       },
       {x}},
      {"mean",
       [](const Inputs& in) {
         return mean(in[0], {1, 2});
       },
       {x}},
      {"max", [](const Inputs& in) { return max(in[0], 1); }, {x}},
      {"max_keepdim", [](const Inputs& in) { return max(in[0], -1, true); }, {x}},
      {"cumsum", [](const Inputs& in) { return cumsum(in[0], 1); }, {x}},
      {"reshape",
       [](const Inputs& in) {
         return square(reshape(in[0], {5, -1}));
       },
       {x}},
      {"reshape_of_view",
       [](const Inputs& in) {
         return square(reshape(transpose(in[0], 0, 1), {3, 10}));
       },
       {x}},
      {"transpose", [](const Inputs& in) { return square(transpose(in[0], 0, -1)); }, {x}},
      {"permute",
       [](const Inputs& in) {
         return square(permute(in[0], {2, 0, 1}));
       },
       {x}},
      {"slice", [](const Inputs& in) { return square(slice(in[0], 1, 1, 3)); }, {x}},
      {"expand",
       [](const Inputs& in) {
         return square(expand(in[0], {3, 4, 5}));
       },
       {randn({4, 1}, 9)}},
      {"concat",
       [](const Inputs& in) {
         return square(concat({in[0], in[1]}, 1));
       },
       {x, y}},
      {"split",
       [](const Inputs& in) {
         const std::vector<Variable> parts = split(in[0], {2, 2, 1}, 2);
         return parts[0] * parts[1];  // the third part has no gradient
       },
       {x}},
      {"split_heads",
       [](const Inputs& in) {
         const std::vector<Variable> heads = split_heads(in[0], {{2, 2}, {2, 2}, {1, 3}});
         return heads[0] * square(heads[1]);  // the third part has no gradient
       },
       {randn({2, 3, 11}, 10)}},
  };
}

std::vector<Case> product_cases() {
  const Tensor x = randn({2, 3, 5}, 11), w = randn({4, 5}, 12), b = randn({4}, 13);
  const auto with = [&](Activation activation) {
    return Case{"linear_activation_" + std::to_string(static_cast<int>(activation)),
                [activation](const Inputs& in) {
                  return linear_activation(in[0], in[1], in[2], activation);
                },
                {x, w, b}};
  };
  return {
      {"matmul",
       [](const Inputs& in) { return matmul(in[0], in[1]); },
       {randn({3, 4}, 14), randn({4, 2}, 15)}},
      {"matmul_batched",
       [](const Inputs& in) { return matmul(in[0], in[1]); },
       {x, randn({2, 5, 4}, 16)}},
      {"matmul_shared",
       [](const Inputs& in) { return matmul(in[0], in[1]); },
       {x, randn({5, 4}, 17)}},
      {"matmul_broadcast",
       [](const Inputs& in) { return matmul(in[0], in[1]); },
       {randn({2, 1, 3, 4}, 18), randn({3, 4, 2}, 19)}},
      {"matmul_transposed",
       [](const Inputs& in) { return matmul(transpose(in[0], -1, -2), in[1]); },
       {randn({2, 4, 3}, 20), randn({2, 4, 2}, 21)}},
      {"linear", [](const Inputs& in) { return linear(in[0], in[1], in[2]); }, {x, w, b}},
      {"linear_no_bias", [](const Inputs& in) { return linear(in[0], in[1]); }, {x, w}},
      with(Activation::relu),
      with(Activation::silu),
      with(Activation::gelu),
      with(Activation::gelu_tanh),
  };
}

std::vector<Case> point_cases() {
  const Tensor x = randn({2, 3, 5}, 41), heads = randn({2, 3, 2, 8}, 42);
  const auto gaussians = [](double rope_base) {
    return [=](const Inputs& in) {
      const auto [points, squared_length] = gaussian_points(
          transpose(in[0], 1, 2), {.rope_base = rope_base, .offset = 3, .least_sigma = 0.1});
      return points * squared_length;
    };
  };
  return {
      {"polar_length", [](const Inputs& in) { return polar(in[0]).length; }, {x}},
      {"polar_direction", [](const Inputs& in) { return polar(in[0]).direction; }, {x}},
      {"polar",
       [](const Inputs& in) {
         const auto [direction, length] = polar(transpose(in[0], 1, 2));
         return direction / affine(length, 1, 0.5);
       },
       {heads}},
      {"ball_radius",
       [](const Inputs& in) {
         const auto [r, one_minus_r, sharpness] =
             ball_radius(in[0], in[1], {.s = 1.5, .factor = 0.8, .largest_beta = 100});
         return r * square(one_minus_r) + sharpness;
       },
       {uniform({2, 3, 4, 1}, 0.1, 4), uniform({3, 1, 1}, 0.5, 2, 2)}},
      {"ball_log_factor",
       [](const Inputs& in) {
         return ball_log_factor(in[0], in[1], {}, {.s = 2, .one_minus_r = 3, .one_plus_r = 1});
       },
       {uniform({2, 3, 4, 1}, 0.1, 0.9), uniform({2, 3, 4, 1}, 0.1, 0.9, 2)}},
      {"gaussian_points", gaussians(0), {heads}},
      {"gaussian_points_rotated", gaussians(100), {heads}},
      {"gaussian_points_alone",
       [](const Inputs& in) { return square(gaussian_points(in[0], {}).points); },
       {heads}},
      {"gaussian_squared_length",
       [](const Inputs& in) { return gaussian_points(in[0], {}).squared_length; },
       {heads}},
  };
}

std::vector<Case> model_cases() {
  const Tensor x = randn({2, 3, 6}, 31), scores = randn({2, 3, 5}, 32);
  const Tensor weight = randn({6}, 33, 1), bias = randn({6}, 34);
  const Tensor labels = indices({1, ignored_label, 4, 0, ignored_label, 4});
  return {
      {"softmax", [](const Inputs& in) { return masked_softmax(in[0], 0.7, {}); }, {scores}},
      {"softmax_causal",
       [](const Inputs& in) { return masked_softmax(in[0], 1, {.causal = true, .mask = {}}); },
       {scores}},
      {"softmax_masked",  // its second row sees nothing
       [](const Inputs& in) {
         return masked_softmax(in[0], 1, {.causal = true, .mask = mask_3x5()});
       },
       {scores}},
      {"rope", [](const Inputs& in) { return square(rope(in[0], 100, 3)); }, {x}},
      {"rms_norm", [](const Inputs& in) { return rms_norm(in[0], in[1]); }, {x, weight}},
      {"layer_norm",
       [](const Inputs& in) { return layer_norm(in[0], in[1], in[2]); },
       {x, weight, bias}},
      {"gather_rows",
       [](const Inputs& in) {
         return square(gather_rows(in[0], indices({2, 0, 2, 2})));
       },
       {randn({4, 3}, 35)}},
      {"cross_entropy",
       [labels](const Inputs& in) { return cross_entropy(in[0], labels).loss; },
       {randn({6, 5}, 36)}},
      {"cross_entropy_normalizer",
       [labels](const Inputs& in) { return cross_entropy(in[0], labels, 10).loss; },
       {randn({6, 5}, 37)}},
      {"linear_cross_entropy",
       [labels](const Inputs& in) {
         return scale(linear_cross_entropy(in[0], in[1], labels.reshape({2, 3})).loss, 3);
       },
       {x, randn({5, 6}, 38)}},
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto group :
       {elementwise_cases, reduction_and_shape_cases, product_cases, point_cases, model_cases}) {
    for (Case& one : group()) all.push_back(std::move(one));
  }
  return all;
}

class Gradcheck : public ::testing::TestWithParam<Case> {};

TEST_P(Gradcheck, AgreesWithCentralDifferences) {
  EXPECT_EQ(gradcheck(GetParam().f, GetParam().inputs), "");
}

INSTANTIATE_TEST_SUITE_P(EveryOp, Gradcheck, ::testing::ValuesIn(all_cases()),
                         [](const auto& one) { return one.param.name; });

TEST(GradcheckItself, FindsAWrongGradient) {
  const auto wrong = [](const Inputs& in) {
    return record("wrong", {in[0]}, scale(in[0].data(), 2),
                  [](const std::vector<Tensor>& grads, const NeedsGrad&) {
                    return std::vector<Tensor>{scale(grads[0], 2.0001)};
                  });
  };
  EXPECT_NE(gradcheck(wrong, {randn({3}, 1)}), "");
}

}  // namespace
}  // namespace mobius::gradcheck_test
