// Linear layers and the head in bf16: values and gradients are those of the composed form, in which
// the operands are rounded and all else is not.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops.h"
#include "tests/autograd/losses.h"
#include "tests/device.h"

namespace mobius::bf16_test {
namespace {

constexpr MatmulPrecision kBf16 = MatmulPrecision::bf16;

Tensor randn(Shape shape, std::uint64_t stream, double std = 1) {
  return placed::random_normal(std::move(shape), 0, std, {9, stream});
}

// Rounded to bf16, in f64: products of these have no rounding to speak of.
Tensor rounded(const Tensor& x) { return x.to(DType::bf16).to(DType::f64); }

Tensor rows_of(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// |a - b| / |b|.
double distance(const Tensor& a, const Tensor& b) {
  const Tensor want = b.to(DType::f64), difference = sub(a.to(DType::f64).reshape(b.shape()), want);
  return std::sqrt(sum_of_squares(difference) / sum_of_squares(want));
}

// Sums in f32 are within the first; what was rounded once too often, or not at all, is beyond the
// second.
constexpr double kSame = 1e-6, kRounded = 1e-4;

struct Layer {
  Variable x, weight, bias;
  Tensor grad_y;
};

Layer some_layer() {
  return {Variable(randn({3, 50, 40}, 1), true), Variable(randn({30, 40}, 2), true),
          Variable(randn({30}, 3), true), randn({3, 50, 30}, 4)};
}

// The gradients of a layer from that of its product.
void expect_gradients(const Layer& layer, const Tensor& grad_pre) {
  const Tensor grad = rounded(rows_of(grad_pre));
  EXPECT_LT(distance(layer.x.grad(), matmul(grad, rounded(layer.weight.data()))), kSame);
  EXPECT_LT(
      distance(layer.weight.grad(), matmul(grad.transpose(0, 1), rounded(rows_of(layer.x.data())))),
      kSame);
  const Tensor grad_bias = sum(rows_of(grad_pre), {0});
  EXPECT_LT(distance(layer.bias.grad(), grad_bias), kSame);
  EXPECT_GT(distance(sum(grad, {0}), grad_bias), kRounded) << "the test cannot tell them apart";
  for (const Variable& variable : {layer.x, layer.weight, layer.bias})
    EXPECT_EQ(variable.grad().dtype(), DType::f32);
}

Tensor product_of(const Layer& layer) {
  return add(linear(rounded(layer.x.data()), rounded(layer.weight.data())),
             layer.bias.data().to(DType::f64));
}

TEST(Bf16, LinearRoundsItsOperandsForwardAndBackward) {
  const Layer layer = some_layer();
  const Variable y = linear(layer.x, layer.weight, layer.bias, kBf16);
  EXPECT_EQ(y.dtype(), DType::f32);
  EXPECT_LT(distance(y.data(), product_of(layer)), kSame);
  EXPECT_GT(distance(y.data(), linear(layer.x, layer.weight, layer.bias).data()), kRounded);
  backward(y, layer.grad_y);
  expect_gradients(layer, layer.grad_y);
}

TEST(Bf16, LinearActivationRoundsTheSame) {
  const std::vector<std::pair<Activation, UnaryOp>> pairs{
      {Activation::relu, UnaryOp::relu},
      {Activation::silu, UnaryOp::silu},
      {Activation::gelu, UnaryOp::gelu},
      {Activation::gelu_tanh, UnaryOp::gelu_tanh}};
  for (const auto& [activation, op] : pairs) {
    const Layer layer = some_layer();
    const Variable y = linear_activation(layer.x, layer.weight, layer.bias, activation, kBf16);
    const Tensor pre = product_of(layer);
    EXPECT_LT(distance(y.data(), unary({op}, pre)), kSame);
    backward(y, layer.grad_y);
    // From the same f32 numbers, for a difference of 1e-7 is one of 4e-3 where it is rounded over.
    const Tensor own_pre = linear(layer.x.data().to(DType::bf16),
                                  layer.weight.data().to(DType::bf16), layer.bias.data());
    expect_gradients(layer, unary_backward({op}, own_pre, unary({op}, own_pre), layer.grad_y));
  }
}

TEST(Bf16, WithoutBiasAndForOneOperandAlone) {
  const Layer layer = some_layer();
  backward(linear(layer.x.detach(), layer.weight, {}, kBf16), layer.grad_y);
  EXPECT_LT(distance(layer.weight.grad(), matmul(rounded(rows_of(layer.grad_y)).transpose(0, 1),
                                                 rounded(rows_of(layer.x.data())))),
            kSame);
  backward(linear(layer.x, layer.weight.detach(), {}, kBf16), layer.grad_y);
  EXPECT_LT(distance(layer.x.grad(),
                     matmul(rounded(rows_of(layer.grad_y)), rounded(layer.weight.data()))),
            kSame);
}

TEST(Bf16, RefusesF64) {
  const Variable x(placed::ones({2, 3}, DType::f64)), weight(placed::ones({4, 3}, DType::f64));
  const Tensor labels = placed::from(std::vector<std::int64_t>{0, 1}, {2});
  EXPECT_THROW(linear(x, weight, {}, kBf16), Error);
  EXPECT_THROW(linear_activation(x, weight, {}, Activation::silu, kBf16), Error);
  EXPECT_THROW(linear_cross_entropy(x, weight, labels, 0, kBf16), Error);
}

// ---- the head

// Labels of a vocabulary, every fourth ignored.
Tensor some_labels(std::int64_t n, std::int64_t vocab) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < n; ++i) labels.push_back(i % 4 == 3 ? -100 : i * 7919 % vocab);
  return placed::from(labels, {n});
}

struct Head {
  Variable hidden, weight;
  Tensor labels;
};

Head some_head(std::int64_t rows, std::int64_t d, std::int64_t vocab) {
  return {Variable(randn({rows, d}, 5), true), Variable(randn({vocab, d}, 6, 0.5), true),
          some_labels(rows, vocab)};
}

TEST(Bf16, HeadEqualsItsComposedForm) {
  const Head head = some_head(45, 24, 300);
  const LossResult result = linear_cross_entropy(head.hidden, head.weight, head.labels, 0, kBf16);
  backward(result.loss);

  const Labels labels("test", head.labels, 300);
  const Tensor rows = gather_rows(head.hidden.data(), labels.positions());
  const CrossEntropyResult composed =
      cross_entropy(linear(rows.to(DType::bf16), head.weight.data().to(DType::bf16)), labels);
  const Tensor grad_logits = rounded(composed.grad_logits);
  const double count = static_cast<double>(labels.count());
  EXPECT_NEAR(result.loss_sum(), sum(composed.losses).item(), 1e-9 * result.loss_sum());
  EXPECT_LT(distance(gather_rows(head.hidden.grad(), labels.positions()),
                     scale(matmul(grad_logits, rounded(head.weight.data())), 1 / count)),
            kSame);
  EXPECT_LT(distance(head.weight.grad(),
                     scale(matmul(grad_logits.transpose(0, 1), rounded(rows)), 1 / count)),
            kSame);
  EXPECT_EQ(head.weight.grad().dtype(), DType::f32);
  EXPECT_EQ(head.hidden.grad().dtype(), DType::f32);
  EXPECT_EQ(result.loss.dtype(), DType::f32);
}

TEST(Bf16, HeadWithoutLabelsHasNoLoss) {
  Head head = some_head(8, 6, 10);
  head.labels = placed::full({8}, ignored_label, DType::i64);
  const LossResult result = linear_cross_entropy(head.hidden, head.weight, head.labels, 0, kBf16);
  backward(result.loss);
  EXPECT_EQ(result.loss.item(), 0);
  EXPECT_EQ(sum_of_squares(head.weight.grad()), 0);
}

// Each of five chunks adds its part to the gradient of the weight. Summed in bf16, that of a row
// would stray by 2^-9 of itself a chunk.
TEST(Bf16, HeadGradientOverManyChunksIsThatOfF64) {
  const std::int64_t vocab = std::int64_t{1} << 17;
  const Head head = some_head(200, 8, vocab);
  const LossResult result = linear_cross_entropy(head.hidden, head.weight, head.labels, 0, kBf16);
  backward(result.loss);

  const Variable hidden(head.hidden.data().to(DType::f64), true);
  const Variable weight(head.weight.data().to(DType::f64), true);
  const LossResult exact = linear_cross_entropy(hidden, weight, head.labels);
  backward(exact.loss);
  EXPECT_NEAR(result.loss_sum() / exact.loss_sum(), 1, 1e-4);
  // Three roundings of 2^-9 / sqrt(3) each, and independent.
  EXPECT_LT(distance(head.weight.grad(), weight.grad()), 4e-3);
  EXPECT_LT(distance(head.hidden.grad(), hidden.grad()), 4e-3);

  const Variable x(rounded(head.hidden.data()), true), w(rounded(head.weight.data()), true);
  backward(linear_cross_entropy(x, w, head.labels).loss);
  const double of_gradient_alone = distance(head.weight.grad(), w.grad());
  EXPECT_LT(of_gradient_alone, 1.5e-3);
}

}  // namespace
}  // namespace mobius::bf16_test
