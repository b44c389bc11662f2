// Every operation refuses an operand that lies on another device than the others, and says which.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/ops.h"
#include "tests/error_of.h"
#include "tests/guarded/guarded_device.h"

namespace mobius::device_checks_test {
namespace {

using ::testing::AllOf;
using testing::guarded_device;
using ::testing::HasSubstr;
using testing::other_guarded_device;

using Tensors = std::vector<Tensor>;

struct Case {
  std::string op;
  std::vector<std::string> names;  // of the operands in messages; the others follow the first
  Tensors operands;
  std::function<void(const Tensors&)> call;
};

Tensor ones(Shape shape, DType dtype = DType::f32) {
  return Tensor::ones(std::move(shape), dtype, guarded_device);
}

void expect_refused(const Case& c, std::size_t which, Device elsewhere) {
  Tensors operands = c.operands;
  operands[which] = operands[which].to(elsewhere);
  const std::string& named = which == 0 ? c.op : c.names[which];
  EXPECT_THAT(error_of<ShapeError>([&] { c.call(operands); }),
              AllOf(HasSubstr(c.op), HasSubstr(named), HasSubstr("lies on"),
                    HasSubstr(to_string(elsewhere)), HasSubstr(to_string(guarded_device))))
      << c.op << ": " << c.names[which];
}

void expect_refusals(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    ASSERT_EQ(c.names.size(), c.operands.size()) << c.op;
    EXPECT_NO_THROW(c.call(c.operands)) << c.op;
    for (std::size_t which = 0; which < c.operands.size(); ++which)
      for (const Device elsewhere : {Device{}, other_guarded_device})
        expect_refused(c, which, elsewhere);
  }
}

TEST(DeviceChecks, Copy) {
  expect_refusals({{"concat", {"a part", "a part"}, {ones({2}), ones({3})}, [](const Tensors& t) {
                      concat(t, 0);
                    }}});
}

TEST(DeviceChecks, Elementwise) {
  const Tensor x = ones({2, 3});
  std::vector<Case> cases{
      {"unary_backward",
       {"x", "y", "grad_y"},
       {x, x, x},
       [](const Tensors& t) { unary_backward({UnaryOp::exp}, t[0], t[1], t[2]); }},
      {"swiglu", {"gate", "up"}, {x, x}, [](const Tensors& t) { swiglu(t[0], t[1]); }},
      {"swiglu_backward",
       {"gate", "up", "grad_out"},
       {x, x, x},
       [](const Tensors& t) { swiglu_backward(t[0], t[1], t[2]); }},
      {"compare",
       {"a", "b"},
       {x, x},
       [](const Tensors& t) { compare(CompareOp::less, t[0], t[1]); }},
      {"where",
       {"a", "b", "the condition"},
       {x, x, ones({2, 3}, DType::u8)},
       [](const Tensors& t) { where(t[2], t[0], t[1]); }},
      {"add_", {"this", "other"}, {x.clone(), x}, [](const Tensors& t) {
         Tensor sum = t[0];
         sum.add_(t[1]);
       }}};
  const std::vector<std::pair<std::string, Tensor (*)(const Tensor&, const Tensor&)>> binary{
      {"add", add}, {"sub", sub},         {"mul", mul},
      {"div", div}, {"maximum", maximum}, {"minimum", minimum}};
  for (const auto& [name, op] : binary)
    cases.push_back({name, {"a", "b"}, {x, x}, [op = op](const Tensors& t) { op(t[0], t[1]); }});
  expect_refusals(cases);
}

TEST(DeviceChecks, Reduce) {
  expect_refusals({{"sum_of_squares",
                    {"sums", "x", "x"},
                    {ones({2}, DType::f64), ones({3}), ones({4})},
                    [](const Tensors& t) { sum_of_squares(std::span(t).subspan(1), t[0]); }}});
}

TEST(DeviceChecks, Matmul) {
  const Tensor x = ones({3, 3});
  expect_refusals({{"matmul", {"a", "b"}, {x, x}, [](const Tensors& t) { matmul(t[0], t[1]); }},
                   {"matmul_add",
                    {"a", "b", "out"},
                    {x, x, x.clone()},
                    [](const Tensors& t) {
                      Tensor out = t[2];
                      matmul_add(out, t[0], t[1]);
                    }},
                   {"linear", {"x", "weight", "bias"}, {x, x, ones({3})}, [](const Tensors& t) {
                      linear(t[0], t[1], t[2]);
                    }}});
}

TEST(DeviceChecks, Softmax) {
  const Tensor x = ones({2, 3}), mask = ones({2, 3}, DType::u8);
  expect_refusals({{"masked_softmax",
                    {"scores", "mask"},
                    {x, mask},
                    [](const Tensors& t) { masked_softmax(t[0], 1, {.mask = t[1]}); }},
                   {"softmax_backward", {"weights", "grad"}, {x, x}, [](const Tensors& t) {
                      softmax_backward(t[0], t[1], 1);
                    }}});
}

// The operands of attention in the order of `names`, for the score map.
AttentionInputs attention_inputs(const Tensors& t, ScoreMap score) {
  AttentionInputs in;
  in.q = t[0];
  in.k = t[1];
  in.v = t[2];
  in.sharpness = t[3];
  if (score == ScoreMap::dot) {
    in.key_bias = t[4];
    in.distance_bias = t[5];
  } else {
    in.log_factor = t[4];
  }
  return in;
}

TEST(DeviceChecks, Attention) {
  const Tensor x = ones({1, 2, 3, 4}), per_query = scale(ones({1, 2, 3}), 0.5);
  const Tensor key_bias = ones({1, 2, 3}), distance_bias = ones({2, 5});
  AttentionSpec conformal;
  conformal.score = ScoreMap::conformal;
  std::vector<Case> cases{
      {"attention",
       {"q", "k", "v", "sharpness", "key_bias", "distance_bias", "mask"},
       {x, x, x, per_query, key_bias, distance_bias, ones({3, 3}, DType::u8)},
       [](const Tensors& t) {
         AttentionSpec spec;
         spec.mask.mask = t[6];
         attention(spec, attention_inputs(t, ScoreMap::dot));
       }},
      {"attention",
       {"q", "k", "v", "sharpness", "log_factor"},
       {x, x, x, per_query, per_query},
       [=](const Tensors& t) { attention(conformal, attention_inputs(t, ScoreMap::conformal)); }}};
  cases.push_back({"attention",
                   {"q", "selection"},
                   {x, Tensor::zeros({1, 2, 3, 1}, DType::i32, guarded_device)},
                   [=](const Tensors& t) {
                     AttentionSpec spec;
                     spec.mask.selected = t[1];
                     attention(spec, attention_inputs({t[0], x, x, {}, {}, {}}, ScoreMap::dot));
                   }});
  const auto backward_of = [](const AttentionSpec& spec, std::size_t n_operands) {
    return [=](const Tensors& t) {
      attention_backward(spec, attention_inputs(t, spec.score),
                         {.out = t[n_operands], .lse = t[n_operands + 1]}, t[n_operands + 2]);
    };
  };
  cases.push_back(
      {"attention",
       {"q", "k", "v", "sharpness", "key_bias", "distance_bias", "out", "lse", "grad_out"},
       {x, x, x, per_query, key_bias, distance_bias, x, per_query, x},
       backward_of({}, 6)});
  cases.push_back({"attention",
                   {"q", "k", "v", "sharpness", "log_factor", "out", "lse", "grad_out"},
                   {x, x, x, per_query, per_query, x, per_query, x},
                   backward_of(conformal, 5)});
  expect_refusals(cases);
}

TEST(DeviceChecks, LinearAttention) {
  const Tensor x = ones({1, 2, 3, 4}), per_query = ones({1, 2, 3});
  expect_refusals({{"linear_attention",
                    {"q", "k", "v"},
                    {x, x, x},
                    [](const Tensors& t) {
                      linear_attention({t[0], t[1], t[2]});
                    }},
                   {"linear_attention",
                    {"q", "k", "v", "out", "denominator", "grad_out"},
                    {x, x, x, x, per_query, x},
                    [](const Tensors& t) {
                      linear_attention_backward({t[0], t[1], t[2]}, {t[3], t[4]}, t[5]);
                    }}});
}

TEST(DeviceChecks, Decomposition) {
  const Tensor x = ones({2, 2});
  expect_refusals({{"inverse_cholesky_backward", {"w", "grad_w"}, {x, x}, [](const Tensors& t) {
                      inverse_cholesky_backward(t[0], t[1]);
                    }}});
}

TEST(DeviceChecks, Norm) {
  const Tensor x = ones({2, 3}), weight = ones({3}), statistic = ones({2}, DType::f64);
  expect_refusals({{"rms_norm",
                    {"x", "weight"},
                    {x, weight},
                    [](const Tensors& t) { rms_norm(t[0], t[1], 0); }},
                   {"rms_norm_backward",
                    {"x", "weight", "rstd", "grad_y"},
                    {x, weight, statistic, x},
                    [](const Tensors& t) { rms_norm_backward(t[0], t[1], t[2], t[3]); }},
                   {"layer_norm",
                    {"x", "weight", "bias"},
                    {x, weight, weight},
                    [](const Tensors& t) { layer_norm(t[0], t[1], t[2], 0); }},
                   {"layer_norm_backward",
                    {"x", "weight", "mean", "rstd", "grad_y"},
                    {x, weight, statistic, statistic, x},
                    [](const Tensors& t) { layer_norm_backward(t[0], t[1], t[2], t[3], t[4]); }}});
}

TEST(DeviceChecks, Points) {
  const Tensor x = ones({2, 4}), lengths = ones({2, 1});
  expect_refusals(
      {{"polar_backward",
        {"direction", "length", "grad_direction", "grad_length"},
        {x, lengths, x, lengths},
        [](const Tensors& t) {
          polar_backward({t[0], t[1]}, t[2], t[3]);
        }},
       {"gaussian_points_backward",
        {"x", "points", "grad_points", "grad_squared_length"},
        {x, x, x, lengths},
        [](const Tensors& t) { gaussian_points_backward(t[0], {}, t[1], t[2], t[3]); }}});
}

TEST(DeviceChecks, Rows) {
  const Tensor x = ones({2, 3}), index = ones({2}, DType::i32);
  expect_refusals({{"gather_rows",
                    {"table", "index"},
                    {x, index},
                    [](const Tensors& t) { gather_rows(t[0], t[1]); }},
                   {"scatter_add_rows",
                    {"rows", "index"},
                    {x, index},
                    [](const Tensors& t) { scatter_add_rows(t[0], t[1], 2); }},
                   {"gather_rows",
                    {"table", "index"},
                    {x, index},
                    [](const Tensors& t) { gather_rows(t[0], RowIndex("row", t[1], 2)); }},
                   {"scatter_add_rows", {"rows", "index"}, {x, index}, [](const Tensors& t) {
                      scatter_add_rows(t[0], RowIndex("row", t[1], 2));
                    }}});
}

TEST(DeviceChecks, Loss) {
  const Tensor logits = ones({2, 3}), labels = ones({2}, DType::i64);
  expect_refusals(
      {{"cross_entropy",
        {"logits", "labels"},
        {logits, labels},
        [](const Tensors& t) { cross_entropy(t[0].clone(), t[1]); }},
       {"cross_entropy",
        {"logits", "labels"},
        {logits, labels},
        [](const Tensors& t) { cross_entropy(t[0].clone(), Labels("labels", t[1], 3)); }},
       {"count_correct", {"labels", "predictions"}, {labels, labels}, [](const Tensors& t) {
          count_correct(t[1], Labels("labels", t[0], 3));
        }}});
}

TEST(DeviceChecks, Optimizer) {
  const Tensor x = ones({4}), scalars = ones({UpdateScalar::count}, DType::f64);
  expect_refusals({{"clip_gradients",
                    {"squares", "the scalars"},
                    {ones({3}, DType::f64), scalars},
                    [](const Tensors& t) { clip_gradients(t[0], 1, t[1]); }},
                   {"adamw",
                    {"the parameter", "the gradient", "a moment", "a moment", "the scalars"},
                    {x, x, x, x, scalars},
                    [](const Tensors& t) {
                      const std::vector<ParameterUpdate> updates{
                          {.gradient = t[1], .value = t[0], .moments = {t[2], t[3]}}};
                      adamw({.beta1 = 0.9, .beta2 = 0.9, .eps = 1, .weight_decay = 0}, updates,
                            t[4]);
                    }},
                   {"sgd",
                    {"the parameter", "the gradient", "a moment", "the scalars"},
                    {x, x, x, scalars},
                    [](const Tensors& t) {
                      const std::vector<ParameterUpdate> updates{
                          {.gradient = t[1], .value = t[0], .moments = {t[2]}}};
                      sgd({.momentum = 0.9, .weight_decay = 0, .nesterov = false}, updates, t[3]);
                    }}});
}

}  // namespace
}  // namespace mobius::device_checks_test
