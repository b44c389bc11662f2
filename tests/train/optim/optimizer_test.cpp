#include "train/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/options/schema.h"
#include "tests/train/run_fixture.h"
#include "train/run/experiment.h"

namespace mobius::optimizer_test {
namespace {

TrainedParameter parameter(const std::string& name, std::vector<double> values, bool decayed,
                           std::vector<double> gradient = {}) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  Variable value(Tensor::from(values, shape), true);
  if (!gradient.empty()) value.mutable_grad() = Tensor::from(gradient, shape);
  return {name, value, decayed};
}

std::vector<double> values_of(const TrainedParameter& parameter) {
  return parameter.value.data().to_vector<double>();
}

// p -= lr * (m_hat / (sqrt(v_hat) + eps) + wd * p), by hand.
TEST(AdamW, FollowsTheFormula) {
  AdamWOptions options;
  options.weight_decay = 0.25;
  const double lr = 0.125, b1 = 0.9, b2 = 0.95, eps = 1e-8;
  TrainedParameter p = parameter("p", {2.0}, true, {0.5});
  const auto optimizer = options.build({p});
  double expected = 2, m = 0, v = 0;
  for (int t = 1; t <= 3; ++t) {
    const double g = 0.5 * t;
    p.value.mutable_grad() = Tensor::from(std::vector<double>{g}, {1});
    optimizer->step(lr);
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    const double m_hat = m / (1 - std::pow(b1, t)), v_hat = v / (1 - std::pow(b2, t));
    expected -= lr * (m_hat / (std::sqrt(v_hat) + eps) + 0.25 * expected);
    EXPECT_NEAR(values_of(p)[0], expected, 1e-14) << "step " << t;
  }
  EXPECT_EQ(optimizer->steps_taken(), 3);
}

TEST(AdamW, DecaysOnlyWhatIsMarked) {
  AdamWOptions options;
  options.weight_decay = 0.5;
  const auto decayed = parameter("a", {1.0}, true, {0.0});
  const auto spared = parameter("b", {1.0}, false, {0.0});
  options.build({decayed, spared})->step(0.1);
  EXPECT_NEAR(values_of(decayed)[0], 0.95, 1e-15);
  EXPECT_EQ(values_of(spared)[0], 1);
}

TEST(Sgd, FollowsMomentum) {
  SgdOptions options;
  options.momentum = 0.5;
  TrainedParameter p = parameter("p", {0.0}, false, {1.0});
  const auto optimizer = options.build({p});
  optimizer->step(1);  // momentum 1
  EXPECT_DOUBLE_EQ(values_of(p)[0], -1);
  optimizer->step(1);  // momentum 0.5 + 1
  EXPECT_DOUBLE_EQ(values_of(p)[0], -2.5);
}

TEST(Sgd, NesterovLooksAhead) {
  SgdOptions options;
  options.momentum = 0.5;
  options.nesterov = true;
  TrainedParameter p = parameter("p", {0.0}, false, {1.0});
  options.build({p})->step(1);  // gradient + 0.5 * momentum
  EXPECT_DOUBLE_EQ(values_of(p)[0], -1.5);
}

TEST(Optimizer, LeavesParametersWithoutGradientAlone) {
  const auto p = parameter("p", {1.0}, true);
  AdamWOptions().build({p})->step(0.1);
  EXPECT_EQ(values_of(p)[0], 1);
}

TEST(Optimizer, NamesItsStateByMomentAndParameter) {
  const std::vector<TrainedParameter> parameters = {parameter("a", {1.0}, true),
                                                    parameter("b.c", {1.0, 2.0}, true)};
  std::vector<std::string> names;
  const auto adamw = AdamWOptions().build(parameters);
  for (const NamedTensor& tensor : adamw->state()) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"m/a", "m/b.c", "v/a", "v/b.c"}));
  const auto sgd = SgdOptions().build(parameters);
  EXPECT_EQ(sgd->state().at(1).name, "momentum/b.c");
}

// ---- clipping

// Plain gradient descent at a rate of 1: what the parameters lost is the gradient that was used.
std::unique_ptr<Optimizer> plain_descent(const std::vector<TrainedParameter>& parameters) {
  SgdOptions options;
  options.momentum = 0;
  return options.build(parameters);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ClippedStep, ScalesAllToTheGlobalNorm) {
  OneRank alone;
  const std::vector<TrainedParameter> parameters = {parameter("a", {0.0}, true, {3.0}),
                                                    parameter("b", {0.0}, true, {4.0}),
                                                    parameter("no gradient", {1.0}, true)};
  const auto optimizer = plain_descent(parameters);
  optimizer->clipped_step(1, 10, alone);
  EXPECT_DOUBLE_EQ(optimizer->gradient_norm().value, 5);
  EXPECT_EQ(values_of(parameters[0])[0], -3);
  EXPECT_EQ(values_of(parameters[1])[0], -4);
  optimizer->clipped_step(1, 1, alone);
  EXPECT_DOUBLE_EQ(optimizer->gradient_norm().value, 5);
  EXPECT_NEAR(values_of(parameters[0])[0], -3.6, 1e-15);
  EXPECT_NEAR(values_of(parameters[1])[0], -4.8, 1e-15);
  optimizer->clipped_step(1, kInfinity, alone);
  EXPECT_NEAR(values_of(parameters[0])[0], -6.6, 1e-14);
  EXPECT_EQ(values_of(parameters[2])[0], 1);
  EXPECT_EQ(parameters[0].value.grad().item(), 3);
}

// From the bad step on nothing changes, and what is read back later names the first.
TEST(ClippedStep, OfAGradientThatIsNotFiniteIsTheLastToCount) {
  OneRank alone;
  const AdamWOptions adamw;
  const SgdOptions sgd;
  for (const OptimizerOptions* options :
       std::initializer_list<const OptimizerOptions*>{&adamw, &sgd}) {
    std::vector<TrainedParameter> parameters = {parameter("a", {1.0}, true, {3.0}),
                                                parameter("b", {2.0}, true, {4.0})};
    const auto optimizer = options->build(parameters);
    const auto all = [&] {
      std::vector<double> values = {values_of(parameters[0])[0], values_of(parameters[1])[0]};
      for (const NamedTensor& tensor : optimizer->state()) values.push_back(tensor.value.item());
      return values;
    };
    optimizer->clipped_step(0.1, kInfinity, alone);
    EXPECT_TRUE(optimizer->gradient_norm().is_finite);
    const std::vector<double> before = all();
    parameters[1].value.mutable_grad().fill(std::nan(""));
    optimizer->clipped_step(0.1, 1, alone);
    parameters[0].value.mutable_grad().fill(kInfinity);
    optimizer->clipped_step(0.1, 1, alone);
    for (TrainedParameter& parameter : parameters) parameter.value.mutable_grad().fill(1);
    optimizer->clipped_step(0.1, 1, alone);
    EXPECT_EQ(all(), before);
    const GradientNorm norm = optimizer->gradient_norm();
    EXPECT_FALSE(norm.is_finite);
    EXPECT_TRUE(std::isnan(norm.value));
    EXPECT_EQ(norm.n_skipped, 3);
    EXPECT_EQ(norm.parameter, 1u);
  }
}

TEST(ClippedStep, KnowsANormThatIsNotFiniteThoughGradientsAre) {
  OneRank alone;
  const auto optimizer =
      plain_descent({parameter("a", {1.0}, true, {1e154}), parameter("b", {1.0}, true, {1.3e154})});
  optimizer->clipped_step(1, 1, alone);
  EXPECT_FALSE(optimizer->gradient_norm().is_finite);
  EXPECT_EQ(optimizer->gradient_norm().value, kInfinity);
  EXPECT_FALSE(optimizer->gradient_norm().parameter.has_value());
  EXPECT_EQ(values_of(optimizer->parameters()[0])[0], 1);
}

// A golden list: a parameter that starts or stops to decay must be meant to.
TEST(WeightDecay, ActsOnMatricesAlone) {
  const Registries known;
  const auto config = config_of(kTinyRun, {"attention.kind=conformal"}, known);
  const Experiment experiment = build_experiment(*config);
  std::vector<std::string> decayed, spared;
  for (const TrainedParameter& parameter : experiment.optimizer->parameters()) {
    (parameter.decayed ? decayed : spared).push_back(parameter.name);
  }
  EXPECT_EQ(decayed, (std::vector<std::string>{
                         "embedding.weight", "positions.weight", "blocks.0.attention.qkv.weight",
                         "blocks.0.attention.proj.weight", "blocks.0.mlp.w_up.weight",
                         "blocks.0.mlp.w_down.weight"}));
  EXPECT_EQ(spared, (std::vector<std::string>{
                        "blocks.0.attention_norm.weight", "blocks.0.attention_norm.bias",
                        "blocks.0.attention.raw_alpha", "blocks.0.attention.qkv.bias",
                        "blocks.0.attention.proj.bias", "blocks.0.mlp_norm.weight",
                        "blocks.0.mlp_norm.bias", "blocks.0.mlp.w_up.bias",
                        "blocks.0.mlp.w_down.bias", "final_norm.weight", "final_norm.bias"}));
}

}  // namespace
}  // namespace mobius::optimizer_test
