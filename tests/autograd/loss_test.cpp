// The head: linear_cross_entropy() against its composed form.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops.h"
#include "tests/autograd/losses.h"
#include "tests/device.h"
#include "tests/error_of.h"

namespace mobius::loss_test {
namespace {

TEST(LinearCrossEntropy, EqualsTheComposedLossWithoutFullLogits) {
  const std::int64_t rows = 700, d = 8, vocab = 9001;  // several chunks
  const RngKey key{3, 1};
  const Tensor hidden = placed::random_normal({rows, d}, 0, 1, key, DType::f64);
  const Tensor weight = placed::random_normal({vocab, d}, 0, 1, {3, 2}, DType::f64);
  std::vector<std::int64_t> values(static_cast<std::size_t>(rows));
  Rng rng({4, 4});
  for (auto& value : values) {
    value = rng.below(3) == 0 ? ignored_label : static_cast<std::int64_t>(rng.below(vocab));
  }
  const Tensor labels = placed::from(values, {rows});

  const Variable h1(hidden, true), w1(weight, true), h2(hidden, true), w2(weight, true);
  const LossResult fused = linear_cross_entropy(h1, w1, labels);
  const LossResult composed = cross_entropy(linear(h2, w2), labels);
  EXPECT_NEAR(fused.loss.item(), composed.loss.item(), 1e-12);
  EXPECT_EQ(fused.predictions.to_vector<std::int64_t>(),
            composed.predictions.to_vector<std::int64_t>());
  backward(fused.loss);
  backward(composed.loss);
  const auto distance = [](const Tensor& a, const Tensor& b) {
    return std::sqrt(sum_of_squares(sub(a, b)) / sum_of_squares(b));
  };
  EXPECT_LT(distance(h1.grad(), h2.grad()), 1e-12);
  EXPECT_LT(distance(w1.grad(), w2.grad()), 1e-12);
}

// Its factor is a number on the device, which nobody reads; only the 1 by default is known.
TEST(LinearCrossEntropy, GradientTakesTheFactorOfItsLoss) {
  const auto gradients = [](double factor, const Tensor& grad_root) {
    const Variable h(placed::ones({3, 2}, DType::f64), true);
    const Variable w(placed::arange(10).to(DType::f64).reshape({5, 2}), true);
    const Tensor labels = placed::from(std::vector<std::int64_t>{1, ignored_label, 4}, {3});
    backward(scale(linear_cross_entropy(h, w, labels).loss, factor), grad_root);
    std::vector<double> values = h.grad().to_vector<double>();
    for (const double value : w.grad().to_vector<double>()) values.push_back(value);
    return values;
  };
  std::vector<double> four_times = gradients(1, {});
  for (double& value : four_times) value *= 4;
  EXPECT_EQ(gradients(4, {}), four_times);
  EXPECT_EQ(gradients(2, placed::full({}, 2, DType::f64)), four_times);
}

TEST(LinearCrossEntropy, NoLabelGivesZeroLossAndZeroGradients) {
  const Variable h(placed::ones({3, 2}), true), w(placed::ones({5, 2}), true);
  const LossResult result =
      linear_cross_entropy(h, w, placed::full({3}, ignored_label, DType::i64));
  EXPECT_EQ(result.loss.item(), 0);
  EXPECT_EQ(result.n_labels(), 0);
  backward(result.loss);
  EXPECT_EQ(h.grad().to_vector<double>(), std::vector<double>(6, 0));
  EXPECT_EQ(w.grad().to_vector<double>(), std::vector<double>(10, 0));
}

TEST(LinearCrossEntropy, RefusesLabelsOutsideTheVocabulary) {
  const Variable h(placed::ones({2, 2})), w(placed::ones({5, 2}));
  const Tensor labels = placed::from(std::vector<std::int64_t>{ignored_label, 5}, {2});
  EXPECT_EQ(error_of([&] { linear_cross_entropy(h, w, labels); }),
            "linear_cross_entropy: label 5 at position 1 is outside [0, 5)");
}

TEST(LinearCrossEntropy, MicroBatchesWithACommonNormalizerAddUp) {
  // Two parts with (sum, count) = (2, 1) and (90, 9) make 9.2, not the mean of 2 and 10.
  const auto part = [](double loss_each, std::int64_t n) {
    // Two classes; the wrong one leads by x, so the loss is log(1 + e^x).
    const double x = std::log(std::expm1(loss_each));
    const Tensor logits = placed::from(std::vector<double>{0, x}, {1, 2}).expand({n, 2}).clone();
    return cross_entropy(Variable(logits), placed::zeros({n}, DType::i64), 10).loss.item();
  };
  EXPECT_NEAR(part(2, 1) + part(10, 9), 9.2, 1e-12);
}

}  // namespace
}  // namespace mobius::loss_test
