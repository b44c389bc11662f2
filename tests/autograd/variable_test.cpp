#include "autograd/variable.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops.h"
#include "tests/device.h"
#include "tests/error_of.h"

namespace mobius::variable_test {
namespace {

Variable leaf(const std::vector<double>& values) {
  return Variable(placed::from(values, {static_cast<std::int64_t>(values.size())}), true);
}

TEST(Backward, AddsUpOverEveryPathAndEveryCall) {
  const Variable x = leaf({2, 3});
  backward(sum(x * x + x));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{5, 7}));
  backward(sum(x));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{6, 8}));
}

TEST(Backward, LeavesSharedGradientBuffersAlone) {
  // add hands one tensor to both inputs: changing one gradient must not change the other.
  Variable a = leaf({1}), b = leaf({1});
  const Variable total = a + b;
  backward(total + total);
  a.mutable_grad().scale_(10);
  EXPECT_EQ(b.grad().item(), 2);
  EXPECT_EQ(a.grad().item(), 20);
}

TEST(Backward, SecondCallOverAFreedGraphIsAnError) {
  const Variable x = leaf({2});
  const Variable y = x * x;
  backward(y);
  const std::string message = error_of([&] { backward(y); });
  EXPECT_NE(message.find("'mul' was freed"), std::string::npos) << message;
  EXPECT_NE(message.find("retain_graph"), std::string::npos) << message;
}

TEST(Backward, RetainedGraphCanBeWalkedAgain) {
  const Variable x = leaf({2});
  const Variable y = x * x;
  backward(y, {}, true);
  backward(y);
  EXPECT_EQ(x.grad().item(), 8);
}

TEST(Backward, NeedsAScalarOrAGradientToStartFrom) {
  const Variable x = leaf({1, 2});
  EXPECT_NE(error_of([&] { backward(x * x); }).find("[2]"), std::string::npos);
  EXPECT_NE(error_of([&] { backward(x * x, placed::ones({3}, DType::f64)); }).find("[3]"),
            std::string::npos);
  EXPECT_NE(error_of([&] { backward(Variable(placed::ones({1}))); }), "no error");
}

TEST(Backward, DeepChainsNeitherOverflowTheStackNorLeak) {
  const std::size_t before = allocator_for({}).stats().current;
  {
    const Variable x = leaf({1});
    Variable y = x;
    for (int i = 0; i < 10000; ++i) y = affine(y, 1, 1);
    backward(y);
    EXPECT_EQ(x.grad().item(), 1);
    for (int i = 0; i < 100000; ++i) y = affine(y, 1, 1);  // dropped without a backward pass
  }
  EXPECT_EQ(allocator_for({}).stats().current, before);
}

TEST(Backward, FreesSavedTensorsOnTheWay) {
  const std::size_t before = allocator_for({}).stats().current;
  const Variable x(placed::ones({1000}, DType::f64), true);
  const Variable loss = sum(exp(x * x));
  backward(loss);
  const std::size_t kept = allocator_for({}).stats().current - before;
  EXPECT_LE(kept, 2 * 1000 * sizeof(double) + 4096);  // x, its gradient, the loss
}

TEST(Backward, SavedTensorChangedInPlaceIsAnError) {
  Variable x = leaf({2});
  const Variable y = x * x;
  x.mutable_data().fill(3);
  const std::string message = error_of([&] { backward(y); });
  EXPECT_NE(message.find("mul: a tensor saved"), std::string::npos) << message;
}

TEST(Backward, AMissingGradientNamesTheOp) {
  const Variable x = leaf({2});
  const Variable y =
      record("half_done", {x}, x.data().clone(),
             [](const std::vector<Tensor>&, const NeedsGrad&) { return std::vector<Tensor>(1); });
  EXPECT_NE(error_of([&] { backward(y); }).find("'half_done' has no gradient"), std::string::npos);
}

TEST(Variable, NoGradGuardStopsRecordingAndNests) {
  const Variable x = leaf({2});
  {
    const NoGradGuard outer;
    { const NoGradGuard inner; }
    EXPECT_FALSE(grad_enabled());
    EXPECT_FALSE((x * x).requires_grad());
  }
  EXPECT_TRUE((x * x).requires_grad());
}

TEST(Variable, DetachCutsTheGraphAndSharesData) {
  const Variable x = leaf({3});
  const Variable cut = (x * x).detach();
  EXPECT_FALSE(cut.requires_grad());
  backward(sum(cut * x));
  EXPECT_EQ(x.grad().item(), 9);
  EXPECT_TRUE(x.detach().data().shares_storage(x.data()));
}

TEST(Variable, OnlyRealTensorsRequireGradients) {
  EXPECT_THROW(Variable(placed::arange(3), true), ShapeError);
  EXPECT_THROW(Variable(Tensor(), true), Error);
}

TEST(Variable, HooksSeeTheWholeGradientOncePerBackward) {
  Variable x = leaf({2});
  std::vector<double> seen;
  x.add_grad_hook([&](Variable& v) { seen.push_back(v.grad().item()); });
  backward(sum(x * x + x + x));
  EXPECT_EQ(seen, std::vector<double>{6});
  EXPECT_THROW((x * x).add_grad_hook([](Variable&) {}), Error);
}

TEST(Variable, HooksComeInTheOrderGradientsBecomeReady) {
  Variable first = leaf({2}), last = leaf({3});
  std::string order;
  first.add_grad_hook([&](Variable&) { order += "first "; });
  last.add_grad_hook([&](Variable&) { order += "last "; });
  backward(exp(first) * last);
  EXPECT_EQ(order, "last first ");
}

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

TEST(Backward, KnowsTheRootItStartedFrom) {
  std::vector<bool> is_default;
  const Variable x(placed::ones({}), true);
  const Variable y = record("probe", {x}, placed::ones({}), [&](const auto& grads, const auto&) {
    is_default.push_back(is_default_root(grads[0]));
    return std::vector<Tensor>{grads[0]};
  });
  backward(y, {}, /*retain_graph=*/true);
  backward(y, placed::ones({}), /*retain_graph=*/true);
  backward(scale(y, 2), {}, /*retain_graph=*/true);
  EXPECT_EQ(is_default, (std::vector<bool>{true, false, false}));
  EXPECT_EQ(x.grad().item(), 4);
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
}  // namespace mobius::variable_test
