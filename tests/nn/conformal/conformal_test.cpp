// Conformal attention: its kernels, its limits, and its layer.
#include <gtest/gtest.h>

#include "tests/nn/attention_variants.h"
#include "tests/nn/layer_testing.h"
#include "tests/nn/nn_testing.h"

namespace mobius::conformal_test {
namespace {

using testing::causal;
using testing::expect_error;
using testing::layer_context;
using testing::normal;

// 1 where the query and the key of the same number meet, so that each query sees one key: its own.
AttentionMask own_key(std::int64_t n) {
  std::vector<std::uint8_t> allowed(static_cast<std::size_t>(n * n), 0);
  for (std::size_t i = 0; i < allowed.size(); i += static_cast<std::size_t>(n) + 1) allowed[i] = 1;
  return {.mask = placed::from(allowed, {n, n})};
}

TEST(Conformal, WeightsOfNoneNeverExceedOne) {
  const std::int64_t n = 200, d = 64;
  const Tensor k = normal({1, 1, n, d}, 1, 1, DType::f32);
  const Variable one(placed::ones({1, 1, n, 1}));
  for (const double length : {1e-3, 1.0, 1e2, 1e3, 1e4, 1e5, 1e7}) {
    // Each query in the direction of its key, where rounding may carry the cosine past 1.
    const HeadInputs in{
        .q = Variable(scale(k, length)), .k = Variable(k), .v = one, .mask = own_key(n)};
    const ConformalKernel newton = conformal_kernel(ConformalWeight::newton, d);
    const Tensor weights =
        attention(conformal_call(in, one, newton, ConformalNormalize::none)).data();
    for (const double weight : weights.to_vector<double>()) {
      EXPECT_LE(weight, 1) << length;
      EXPECT_GE(weight, 0) << length;
    }
  }
}

TEST(Conformal, AnalyticWeightsAreCappedAtTheExponentialOf80WithoutGradient) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor key = normal({1, 1, 1, 64}, 1, 1, dtype);
    const Variable q(scale(key, 1e7), true), k(key, true), alpha(placed::ones({1}, dtype), true),
        v(placed::ones({1, 1, 1, 1}, dtype), true);
    const Variable out = attention(conformal_call({.q = q, .k = k, .v = v}, alpha,
                                                  conformal_kernel(ConformalWeight::newton, 64),
                                                  ConformalNormalize::analytic));
    EXPECT_NEAR(out.item() / std::exp(80.0), 1, 1e-5);
    backward(out);
    for (const Variable& input : {q, k, alpha}) EXPECT_EQ(sum_of_squares(input.grad()), 0);
    EXPECT_EQ(v.grad().item(), out.item());
  }
}

// The mean over the sphere that normalises analytic weights, by a large sample of the sphere.
TEST(Conformal, AnalyticWeightsSumToOneOnTheMeanOverTheSphere) {
  const std::int64_t n = 200000, d = 5;
  const Variable q(normal({1, 1, 1, d}, 1)), k(normal({1, 1, n, d}, 2)),
      v(placed::ones({1, 1, n, 1}, DType::f64)), alpha(placed::ones({1}, DType::f64));
  for (const ConformalWeight weight : {ConformalWeight::newton, ConformalWeight::poisson,
                                       ConformalWeight::jacobian, ConformalWeight::custom}) {
    const ConformalKernel kernel = weight == ConformalWeight::custom
                                       ? conformal_kernel(weight, d, 2.0)
                                       : conformal_kernel(weight, d);
    const AttentionCall call =
        conformal_call({.q = q, .k = k, .v = v}, alpha, kernel, ConformalNormalize::analytic);
    EXPECT_NEAR(attention(call).item(), 1, 0.01);
  }
}

TEST(ConformalKernel, RefusesWhatHasNoMeaning) {
  expect_error<ConfigError>([] { conformal_kernel(ConformalWeight::newton, 1); }, "at least 2");
  expect_error<ConfigError>([] { conformal_kernel(ConformalWeight::custom, 4); }, "s > 0");
  expect_error<ConfigError>([] { conformal_kernel(ConformalWeight::custom, 4, -1.0); }, "s > 0");
  expect_error<ConfigError>([] { conformal_kernel(ConformalWeight::poisson, 4, 2.0); },
                            "weight custom");
}

TEST(Jspace, RadiusAndTemperatureAreInverse) {
  for (const double r : {0.0, 1e-9, 0.3, 0.999, largest_radius}) {
    const double beta = radius_to_beta(r, 2.5);
    const Radius radius = beta_to_radius(Variable(placed::full({1}, beta, DType::f64)), 2.5);
    EXPECT_NEAR(radius.r.item(), r, 1e-15);
    EXPECT_NEAR(radius.one_minus_r.item() / (1 - r), 1, 1e-11);
  }
}

TEST(ConformalLayer, StartsAtTheGivenAlphaAndMayKeepIt) {
  for (const double alpha : {1e-3, 1.0, 4.0, 60.0}) {
    ConformalOptions options;
    options.alpha = alpha;
    const auto learned = options.build(layer_context(4, 2));
    for (const double raw : testing::parameter_of(*learned, "raw_alpha").data().to_vector<double>())
      EXPECT_NEAR(std::log1p(std::exp(raw)) / alpha, 1, 1e-12);
    options.learn_alpha = false;
    const auto fixed = options.build(layer_context(4, 2));
    EXPECT_EQ(fixed->parameter_count(), learned->parameter_count() - 2);
    ASSERT_EQ(fixed->buffers().size(), 1u);
    EXPECT_EQ(fixed->buffers()[0].name, "raw_alpha");
  }
}

TEST(ConformalLayer, CountsQueriesBeyondTheResolutionLimit) {
  ConformalOptions options;
  const Variable x(normal({2, 4, 8}, 4));
  const auto pass = [&x](const Attention& layer) {
    DiagnosticsSink sink;
    layer.forward(x, causal(), {.sink = &sink});
    return sink;
  };
  const auto share = [&](const Attention& layer) {
    const NamedNumbers summaries = pass(layer).summaries();
    EXPECT_EQ(summaries.size(), 1u);
    EXPECT_EQ(summaries.at(0).first, "share_beyond_resolution");
    return summaries.at(0).second;
  };
  options.alpha = 1e-6;  // only the first query is beyond: with one key the limit is 0
  EXPECT_DOUBLE_EQ(share(*options.build(layer_context(8, 2))), 0.25);
  options.alpha = 1e6;
  const auto sharp = options.build(layer_context(8, 2));
  EXPECT_DOUBLE_EQ(share(*sharp), 1);
  // One head blunt, one sharp.
  testing::parameter_of(*sharp, "raw_alpha").mutable_data().slice(0, 0, 1).fill(-14);
  EXPECT_EQ(testing::told(pass(*sharp), "beyond_resolution"), (std::vector<double>{0.25, 1}));
  EXPECT_DOUBLE_EQ(share(*sharp), 0.625);
  EXPECT_TRUE(pass(*SoftmaxOptions().build(layer_context(8, 2))).summaries().empty());
}

}  // namespace
}  // namespace mobius::conformal_test
