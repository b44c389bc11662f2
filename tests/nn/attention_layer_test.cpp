// Every attention variant as a layer: parameters, positions, heads, dropout, diagnostics.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/backend.h"
#include "nn/attention/conformal/conformal.h"
#include "nn/attention/performer.h"
#include "nn/attention/softmax.h"
#include "nn/attention/w2.h"
#include "tests/nn/layer_testing.h"
#include "tests/nn/nn_testing.h"

namespace mobius::attention_layer_test {
namespace {

using testing::causal;
using testing::expect_error;
using testing::layer_context;
using testing::normal;
using testing::parameter_of;
using testing::parameter_told;
using testing::told;

std::shared_ptr<Attention> build(const std::string& kind, const AttentionContext& context) {
  return builtin_attentions().choose(kind)->build(context);
}

bool takes_distances(const std::string& kind) {
  return kind != "conformal" && kind != "conformal_hierarchical" && kind != "linear" &&
         kind != "performer";
}

std::vector<Positions> positions_of(const std::string& kind) {
  if (!takes_distances(kind)) return {Positions::none, Positions::rope};
  return {Positions::none, Positions::rope, Positions::alibi, Positions::relative};
}

void set_relative(const Attention& layer, Positions positions) {
  if (positions == Positions::relative)
    parameter_of(layer, "relative").mutable_data().copy_from(normal({7}, 5));
}

bool forms_weights(const std::string& kind) {
  return kind != "conformal_hierarchical" && kind != "linear" && kind != "performer";
}

class AttentionLayer : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(All, AttentionLayer, ::testing::ValuesIn(builtin_attentions().names()),
                         [](const auto& one) { return one.param; });

TEST_P(AttentionLayer, GradientsOfEveryParameterAgreeWithDifferences) {
  for (const Positions positions : positions_of(GetParam()))
    for (const std::int64_t n_kv_heads : {1, 2}) {
      AttentionContext context = layer_context(positions == Positions::rope ? 8 : 6, 2, positions);
      context.model.n_kv_heads = n_kv_heads;
      const auto layer = build(GetParam(), context);
      set_relative(*layer, positions);
      const Variable x(normal({2, 5, context.model.d_model}, 4));
      testing::expect_parameter_gradients(
          *layer, [&] { return sum(square(layer->forward(x, causal(), {}))); });
    }
}

TEST_P(AttentionLayer, SharedKeyHeadsEqualEqualKeyHeads) {
  AttentionContext context = layer_context(12, 4);
  const auto whole = build(GetParam(), context);
  context.model.n_kv_heads = 2;
  const auto shared = build(GetParam(), context);
  EXPECT_LT(shared->parameter_count(), whole->parameter_count());
  // Rows of q as they are; each head of k and v twice.
  for (const std::string name : {"qkv.weight", "qkv.bias"}) {
    const Tensor& few = parameter_of(*shared, name).data();
    const std::int64_t d = 3, d_q = (few.size(0) - 2 * d) / 6;
    std::vector<Tensor> rows{few.slice(0, 0, 4 * d_q)};
    for (const auto& [begin, width] : {std::pair{4 * d_q, d_q}, std::pair{5 * d_q, d_q},
                                       std::pair{6 * d_q, d}, std::pair{6 * d_q + d, d}})
      for (int copy = 0; copy < 2; ++copy) rows.push_back(few.slice(0, begin, begin + width));
    parameter_of(*whole, name).mutable_data().copy_from(concat(rows, 0));
  }
  parameter_of(*shared, "proj.weight")
      .mutable_data()
      .copy_from(parameter_of(*whole, "proj.weight").data());
  const Variable x(normal({2, 6, 12}, 4));
  EXPECT_LT(testing::distance(shared->forward(x, causal(), {}).data(),
                              whole->forward(x, causal(), {}).data()),
            1e-13);
}

TEST_P(AttentionLayer, RefusesHeadsThatDoNotFit) {
  expect_error<ConfigError>([&] { build(GetParam(), layer_context(10, 3)); }, "divisor of d_model");
  expect_error<ConfigError>([&] { build(GetParam(), layer_context(9, 3, Positions::rope)); },
                            "even");
  AttentionContext context = layer_context(12, 4);
  context.model.n_kv_heads = 3;
  expect_error<ConfigError>([&] { build(GetParam(), context); }, "n_kv_heads");
}

TEST_P(AttentionLayer, RefusesPositionsThatItCannotTell) {
  for (const auto& [positions, name] :
       {std::pair{Positions::alibi, "alibi"}, std::pair{Positions::relative, "relative"}}) {
    const auto attempt = [&, positions = positions] {
      build(GetParam(), layer_context(8, 2, positions));
    };
    if (takes_distances(GetParam()))
      EXPECT_NO_THROW(attempt());
    else
      expect_error<ConfigError>(attempt, name);
  }
}

TEST_P(AttentionLayer, DropsWeightsInTrainingAlone) {
  AttentionContext context = layer_context(8, 2);
  const auto plain = build(GetParam(), context);
  context.model.attention_dropout = 0.4;
  if (!forms_weights(GetParam())) {
    expect_error<ConfigError>([&] { build(GetParam(), context); }, "attention_dropout");
    return;
  }
  const auto layer = build(GetParam(), context);
  const Variable x(normal({2, 6, 8}, 4));
  const auto run = [&x](Attention& attention, const ForwardContext& step) {
    return attention.forward(x, causal(), step).data().to_vector<double>();
  };
  const ForwardContext step{.training = true, .rng = {1, 2}}, next{.training = true, .rng = {1, 3}};
  EXPECT_EQ(run(*layer, step), run(*layer, step));
  EXPECT_NE(run(*layer, step), run(*layer, next));
  EXPECT_EQ(run(*layer, {.training = false, .rng = {1, 2}}), run(*plain, step));
  testing::expect_parameter_gradients(
      *layer, [&] { return sum(square(layer->forward(x, causal(), step))); });
}

TEST_P(AttentionLayer, AnOrthogonalLayerHasOrthogonalQueriesKeysAndValues) {
  AttentionContext context = layer_context(8, 2);
  context.init = Initializer(9, 0.02, /*orthogonal=*/true, DType::f64, testing::device());
  const Tensor qkv = parameter_of(*build(GetParam(), context), "qkv.weight").data();
  const std::int64_t d_q = (qkv.size(0) - 8) / 2;
  for (const auto& [begin, end] : {std::pair{std::int64_t{0}, d_q}, std::pair{d_q, 2 * d_q},
                                   std::pair{2 * d_q, 2 * d_q + 8}}) {
    const Tensor part = qkv.slice(0, begin, end).contiguous();
    // Orthonormal columns: 8 inputs, at least as many outputs.
    Tensor gram = matmul(part.transpose(0, 1), part);
    for (std::int64_t i = 0; i < 8; ++i) {
      Tensor one = gram.slice(0, i, i + 1).slice(1, i, i + 1);
      one.fill(one.item() - 1);
    }
    EXPECT_LT(sum_of_squares(gram), 1e-24);
  }
}

// Queries of length 0 weigh all keys alike, but for alibi and the like.
TEST_P(AttentionLayer, TellsTheEntropyOfItsWeightsWhenAsked) {
  const auto layer = build(GetParam(), layer_context(8, 2));
  Variable weight = parameter_of(*layer, "qkv.weight");
  weight.mutable_data().fill(0);
  DiagnosticsSink summary;
  layer->forward(Variable(normal({2, 5, 8}, 4)), causal(), {.sink = &summary});
  EXPECT_TRUE(told(summary, "entropy").empty()) << "not asked for";
  for (const std::int64_t n : {5, 1200}) {  // at once, and in parts
    DiagnosticsSink sink(Diagnosis::entropy);
    layer->forward(Variable(normal({2, n, 8}, 4)), causal(), {.sink = &sink});
    double expected = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t n_seen =
          GetParam() == "sparse" ? std::min<std::int64_t>(i + 1, 64) : i + 1;
      expected += std::log(static_cast<double>(n_seen)) / static_cast<double>(n);
    }
    const std::vector<double> entropy = told(sink, "entropy");
    ASSERT_EQ(entropy.size(), 2u);
    // Features of far keys approach a kernel without being it.
    const double tolerance = GetParam() == "conformal_hierarchical" ? 1e-2 : 1e-9;
    for (const double of_head : entropy) EXPECT_NEAR(of_head, expected, tolerance) << n;
    EXPECT_FALSE(sink.layers()[0].weights.defined()) << "N^2 numbers that nobody asked for";
  }
}

// Of the short sequence at once, of the long one in parts, whose borders lie among the same rows.
TEST_P(AttentionLayer, TellsTheSameWeightsInParts) {
  const std::int64_t n_short = 700, n_long = 1500;
  const Tensor x = normal({1, n_long, 8}, 4);
  for (const Positions positions : positions_of(GetParam())) {
    const auto layer = build(GetParam(), layer_context(8, 2, positions));
    set_relative(*layer, positions);
    const auto weights_of = [&](std::int64_t n) {
      DiagnosticsSink sink(Diagnosis::weights);
      layer->forward(Variable(x.slice(1, 0, n).contiguous()), causal(), {.sink = &sink});
      return sink.layers().at(0).weights;
    };
    const Tensor few = weights_of(n_short), many = weights_of(n_long);
    ASSERT_EQ(many.shape(), (Shape{2, n_long, n_long}));
    EXPECT_LT(testing::distance(few, many.slice(1, 0, n_short).slice(2, 0, n_short)), 1e-12);
  }
}

TEST_P(AttentionLayer, TellsTheEntropyInMemoryLinearInTheSequence) {
  if (GetParam() == "softmax_naive") GTEST_SKIP() << "forms all its weights anyway";
  const auto layer = build(GetParam(), layer_context(8, 2));
  const auto peak_of = [&](std::int64_t n) {
    const NoGradGuard no_grad;
    const Variable x(normal({1, n, 8}, 4));
    allocator_for({}).reset_peak();
    DiagnosticsSink sink(Diagnosis::entropy);
    layer->forward(x, causal(), {.sink = &sink});
    return allocator_for({}).stats().peak;
  };
  EXPECT_LT(peak_of(2800), 6 * peak_of(700));  // of all weights at once: 16 times
}

TEST(AttentionDiagnostics, TellAlphaAndTau) {
  ConformalOptions conformal;
  conformal.alpha = 3;
  const std::vector<double> alphas = parameter_told(*conformal.build(layer_context(8, 2)), "alpha");
  ASSERT_EQ(alphas.size(), 2u);
  for (const double alpha : alphas) EXPECT_NEAR(alpha, 3, 1e-12);
  const auto w2 = W2Options().build(layer_context(8, 2));
  const std::vector<double> taus = parameter_told(*w2, "tau");
  ASSERT_EQ(taus.size(), 2u);
  for (const double tau : taus) EXPECT_NEAR(tau, 2 * std::sqrt(4.0), 1e-12);
  EXPECT_TRUE(parameter_told(*w2, "alpha").empty());
  EXPECT_TRUE(parameter_told(*SoftmaxOptions().build(layer_context(8, 2)), "tau").empty());
}

// A value with a summary is averaged over heads, then over the layers that told it; the others are
// kept by layer, under whatever name they have.
TEST(AttentionDiagnostics, SummariesAreMeansOverHeadsAndLayers) {
  DiagnosticsSink sink;
  sink.begin_layer();
  sink.tell({"own", {1, 2}, "mean_own"});
  sink.tell({"other", {7}});
  sink.begin_layer();
  sink.begin_layer();
  sink.tell({"own", {3, 6, 9}, "mean_own"});
  ASSERT_EQ(sink.layers().size(), 3u);
  EXPECT_EQ(told(sink, "other", 0), (std::vector<double>{7}));
  EXPECT_TRUE(sink.layers()[1].values.empty());
  EXPECT_EQ(sink.summaries(), (NamedNumbers{{"mean_own", (1.5 + 6) / 2}}));
}

TEST(AttentionDiagnostics, EntropyIsOfWeightsDividedByTheirSum) {
  const Tensor weights =
      placed::from(std::vector<double>{2, 2, 0, 0, 0, 0, 0, 5, 0, 1, 1, 2}, {1, 2, 2, 3});
  MeanEntropy mean(2);
  mean.add(weights);
  const std::vector<double> entropy = mean.value();
  EXPECT_NEAR(entropy[0], std::log(2), 1e-15);  // the second query has no weights
  EXPECT_NEAR(entropy[1], (0 + 1.5 * std::log(2)) / 2, 1e-15);
}

TEST(ConformalLayer, NeedsTwoDimensions) {
  expect_error<ConfigError>([] { build("conformal", layer_context(3, 3)); }, "at least 2");
}

}  // namespace
}  // namespace mobius::attention_layer_test
