// Every attention variant, as a function of q, k, v and as a layer.
#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "nn/attention/conformal.h"
#include "nn/attention/softmax.h"
#include "nn_testing.h"

namespace mobius {
namespace {

using testing::expect_error;
using testing::normal;

struct Variant {
  std::string name;
  std::function<Variable(const Variable& q, const Variable& k, const Variable& v,
                         const Variable& alpha, const AttentionMask& mask)>
      attend;
};

std::string name_of(const ::testing::TestParamInfo<Variant>& info) { return info.param.name; }

std::vector<Variant> variants() {
  // softmax has no alpha; it is given one, so that each test reads the same for all.
  std::vector<Variant> all = {
      {"softmax",
       [](const Variable& q, const Variable& k, const Variable& v, const Variable& alpha,
          const AttentionMask& mask) { return softmax_attention(q * alpha, k, v, mask); }}};
  const std::vector<std::pair<std::string, ConformalWeight>> weights = {
      {"newton", ConformalWeight::newton},
      {"poisson", ConformalWeight::poisson},
      {"jacobian", ConformalWeight::jacobian},
      {"custom", ConformalWeight::custom}};
  const std::vector<std::pair<std::string, ConformalNormalize>> normalizes = {
      {"none", ConformalNormalize::none},
      {"analytic", ConformalNormalize::analytic},
      {"empirical", ConformalNormalize::empirical}};
  for (const auto& [weight_name, weight] : weights)
    for (const auto& [normalize_name, normalize] : normalizes)
      all.push_back({weight_name + "_" + normalize_name,
                     [=](const Variable& q, const Variable& k, const Variable& v,
                         const Variable& alpha, const AttentionMask& mask) {
                       const bool is_custom = weight == ConformalWeight::custom;
                       const ConformalKernel kernel =
                           is_custom ? conformal_kernel(weight, q.size(-1), 1.7, 0.3)
                                     : conformal_kernel(weight, q.size(-1));
                       return conformal_attention(q, k, v, alpha, kernel, normalize, mask);
                     }});
  return all;
}

struct Inputs {
  Tensor q, k, v, alpha;
};

// B = 2 sequences, H = 2 heads.
Inputs inputs_of(std::int64_t n_q, std::int64_t n_k, std::int64_t d, std::int64_t d_v,
                 double q_std = 1, DType dtype = DType::f64) {
  return {normal({2, 2, n_q, d}, 1, q_std, dtype), normal({2, 2, n_k, d}, 2, 1, dtype),
          normal({2, 2, n_k, d_v}, 3, 1, dtype),
          Tensor::from(std::vector<double>{0.7, 1.6}, {2, 1, 1}).to(dtype)};
}

AttentionMask causal() { return {.causal = true}; }

class AttentionVariant : public ::testing::TestWithParam<Variant> {
 protected:
  Tensor run(const Inputs& in, const AttentionMask& mask) const {
    return GetParam()
        .attend(Variable(in.q), Variable(in.k), Variable(in.v), Variable(in.alpha), mask)
        .data();
  }

  std::string check_gradients(const Inputs& in, const AttentionMask& mask) const {
    return gradcheck(
        [&](const std::vector<Variable>& x) {
          return GetParam().attend(x[0], x[1], x[2], x[3], mask);
        },
        {in.q, in.k, in.v, in.alpha});
  }
};

INSTANTIATE_TEST_SUITE_P(All, AttentionVariant, ::testing::ValuesIn(variants()), name_of);

TEST_P(AttentionVariant, GradientsAgreeWithDifferencesForOddAndEvenHeads) {
  for (const std::int64_t d : {2, 3, 16}) {
    EXPECT_EQ(check_gradients(inputs_of(3, 3, d, 4), causal()), "") << "d = " << d;
    EXPECT_EQ(check_gradients(inputs_of(2, 4, d, 3), {}), "") << "d = " << d;
  }
  EXPECT_EQ(check_gradients(inputs_of(2, 3, 24, 24), causal()), "");
}

TEST_P(AttentionVariant, GradientsAgreeWithDifferencesForPeakedQueries) {
  EXPECT_EQ(check_gradients(inputs_of(3, 4, 3, 2, /*q_std=*/6), causal()), "");
}

TEST_P(AttentionVariant, AQuerySeesAsManyEarlierKeysAsThereAre) {
  // The last n_q queries of a longer sequence: rows of the square case.
  const Inputs whole = inputs_of(6, 6, 4, 3);
  Inputs last = whole;
  last.q = whole.q.slice(2, 4, 6);
  const Tensor expected = run(whole, causal()).slice(2, 4, 6).contiguous();
  EXPECT_LT(std::sqrt(sum_of_squares(sub(run(last, causal()), expected))), 1e-14);
}

TEST_P(AttentionVariant, CausalOutputsDoNotSeeLaterKeys) {
  const Inputs in = inputs_of(7, 7, 4, 3, 1, DType::f32);
  const std::vector<float> before = run(in, causal()).slice(2, 0, 5).to_vector<float>();
  in.k.slice(2, 5, 7).fill(9);
  in.v.slice(2, 5, 7).fill(-9);
  in.q.slice(2, 5, 7).fill(3);
  EXPECT_EQ(run(in, causal()).slice(2, 0, 5).to_vector<float>(), before);
  in.v.slice(2, 4, 5).fill(-9);
  EXPECT_NE(run(in, causal()).slice(2, 0, 5).to_vector<float>(), before);
}

TEST_P(AttentionVariant, ABooleanMaskEqualsLeavingTheKeysOut) {
  Inputs in = inputs_of(3, 5, 4, 3);
  const AttentionMask mask{.causal = false,
                           .mask = Tensor::from(std::vector<std::uint8_t>{1, 0, 1, 1, 0}, {1, 5})};
  const Tensor masked = run(in, mask);
  const auto keep = [](const Tensor& x) { return concat({x.slice(2, 0, 1), x.slice(2, 2, 4)}, 2); };
  in.k = keep(in.k);
  in.v = keep(in.v);
  EXPECT_LT(std::sqrt(sum_of_squares(sub(masked, run(in, {})))), 1e-14);
}

TEST_P(AttentionVariant, AQueryThatSeesNothingIsZeroWithZeroGradients) {
  const Inputs in = inputs_of(2, 3, 4, 3);
  const AttentionMask mask{
      .causal = false, .mask = Tensor::from(std::vector<std::uint8_t>{1, 0, 1, 0, 0, 0}, {2, 3})};
  const Variable q(in.q, true), k(in.k, true), v(in.v, true), alpha(in.alpha, true);
  const Variable out = GetParam().attend(q, k, v, alpha, mask);
  EXPECT_EQ(sum_of_squares(out.data().slice(2, 1, 2).contiguous()), 0);
  EXPECT_GT(sum_of_squares(out.data().slice(2, 0, 1).contiguous()), 0);
  backward(sum(slice(out, 2, 1, 2)));
  for (const Variable& input : {q, k, v, alpha})
    EXPECT_TRUE(!input.grad().defined() || sum_of_squares(input.grad()) == 0);
}

TEST_P(AttentionVariant, RefusesAMaskOfAnotherSize) {
  const Inputs in = inputs_of(2, 3, 4, 3);
  for (const Shape& shape : {Shape{2, 4}, Shape{3, 3}, Shape{2, 2}, Shape{3, 2, 2, 3}})
    EXPECT_THROW(run(in, {.causal = false, .mask = Tensor::ones(shape, DType::u8)}), Error)
        << to_string(shape);
}

TEST_P(AttentionVariant, ZeroQueriesAndKeysAreFinite) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Inputs in = inputs_of(3, 3, 4, 3, 1, dtype);
    in.q.slice(2, 0, 1).fill(0);
    in.k.slice(2, 1, 2).fill(0);
    const Variable q(in.q, true), k(in.k, true), v(in.v, true), alpha(in.alpha, true);
    const Variable out = GetParam().attend(q, k, v, alpha, causal());
    backward(sum(square(out)));
    for (const Tensor& tensor : {out.data(), q.grad(), k.grad(), v.grad(), alpha.grad()})
      EXPECT_TRUE(std::isfinite(sum_of_squares(tensor)));
  }
}

// Queries far beyond any temperature that training reaches, and keys in their direction.
TEST_P(AttentionVariant, ExtremeQueriesAreFiniteInFloat32) {
  for (const double q_std : {1e2, 1e4, 1e8}) {
    Inputs in = inputs_of(4, 4, 8, 3, q_std, DType::f32);
    in.k.slice(2, 0, 1).copy_from(scale(in.q.slice(2, 3, 4).contiguous(), 1 / q_std));
    const Variable q(in.q, true), k(in.k, true), v(in.v, true), alpha(in.alpha, true);
    const Variable out = GetParam().attend(q, k, v, alpha, causal());
    backward(sum(out));
    for (const Tensor& tensor : {out.data(), q.grad(), k.grad(), v.grad(), alpha.grad()})
      for (const double value : tensor.to_vector<double>()) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST(Softmax, IsTheUsualFormulaAndTakesAScale) {
  const Inputs in = inputs_of(1, 2, 3, 1);
  const std::vector<double> q = in.q.to_vector<double>(), k = in.k.to_vector<double>(),
                            v = in.v.to_vector<double>();
  double scores[2] = {};
  for (std::size_t j = 0; j < 2; ++j)
    for (std::size_t t = 0; t < 3; ++t) scores[j] += q[t] * k[3 * j + t];
  const auto expected = [&](double scale) {
    const double a = std::exp(scale * scores[0]), b = std::exp(scale * scores[1]);
    return (a * v[0] + b * v[1]) / (a + b);
  };
  const auto got = [&](std::optional<double> scale) {
    return softmax_attention(Variable(in.q), Variable(in.k), Variable(in.v), {}, scale)
        .data()
        .to_vector<double>()[0];
  };
  EXPECT_NEAR(got({}), expected(1 / std::sqrt(3.0)), 1e-14);
  EXPECT_NEAR(got(0.3), expected(0.3), 1e-14);
}

// 1 where the query and the key of the same number meet, so that each query sees one key: its own.
AttentionMask own_key(std::int64_t n) {
  std::vector<std::uint8_t> allowed(static_cast<std::size_t>(n * n), 0);
  for (std::size_t i = 0; i < allowed.size(); i += static_cast<std::size_t>(n) + 1) allowed[i] = 1;
  return {.mask = Tensor::from(allowed, {n, n})};
}

TEST(Conformal, WeightsOfNoneNeverExceedOne) {
  const std::int64_t n = 200, d = 64;
  const Tensor k = normal({1, 1, n, d}, 1, 1, DType::f32);
  const Variable one(Tensor::ones({1, 1, n, 1}));
  for (const double length : {1e-3, 1.0, 1e2, 1e3, 1e4, 1e5, 1e7}) {
    // Each query in the direction of its key, where rounding may carry the cosine past 1.
    const Tensor weights = conformal_attention(Variable(scale(k, length)), Variable(k), one, one,
                                               conformal_kernel(ConformalWeight::newton, d),
                                               ConformalNormalize::none, own_key(n))
                               .data();
    for (const double weight : weights.to_vector<double>()) {
      EXPECT_LE(weight, 1) << length;
      EXPECT_GE(weight, 0) << length;
    }
  }
}

TEST(Conformal, AnalyticWeightsAreCappedAtTheExponentialOf80WithoutGradient) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor key = normal({1, 1, 1, 64}, 1, 1, dtype);
    const Variable q(scale(key, 1e7), true), k(key, true), alpha(Tensor::ones({1}, dtype), true),
        v(Tensor::ones({1, 1, 1, 1}, dtype), true);
    const Variable out =
        conformal_attention(q, k, v, alpha, conformal_kernel(ConformalWeight::newton, 64),
                            ConformalNormalize::analytic, {});
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
      v(Tensor::ones({1, 1, n, 1}, DType::f64)), alpha(Tensor::ones({1}, DType::f64));
  for (const ConformalWeight weight : {ConformalWeight::newton, ConformalWeight::poisson,
                                       ConformalWeight::jacobian, ConformalWeight::custom}) {
    const ConformalKernel kernel = weight == ConformalWeight::custom
                                       ? conformal_kernel(weight, d, 2.0)
                                       : conformal_kernel(weight, d);
    EXPECT_NEAR(
        conformal_attention(q, k, v, alpha, kernel, ConformalNormalize::analytic, {}).item(), 1,
        0.01);
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
    const Radius radius = beta_to_radius(Variable(Tensor::full({1}, beta, DType::f64)), 2.5);
    EXPECT_NEAR(radius.r.item(), r, 1e-15);
    EXPECT_NEAR(radius.one_minus_r.item() / (1 - r), 1, 1e-11);
  }
}

AttentionContext layer_context(std::int64_t d_model, std::int64_t n_heads, bool rope,
                               DType dtype = DType::f64) {
  return {.d_model = d_model,
          .n_heads = n_heads,
          .bias = true,
          .rope = rope,
          .rope_base = 100,
          .init = Initializer(/*seed=*/9, /*std=*/0.4, /*orthogonal=*/false, dtype, {}),
          .output_scale = 1};
}

TEST(AttentionLayer, GradientsOfEveryParameterAgreeWithDifferences) {
  const Registry<AttentionOptions> attentions = builtin_attentions();
  for (const std::string& kind : attentions.names())
    for (const bool rope : {false, true}) {
      const auto layer = attentions.choose(kind)->build(layer_context(rope ? 12 : 9, 3, rope));
      const Variable x(normal({2, 4, rope ? 12 : 9}, 4));
      testing::expect_parameter_gradients(
          *layer, [&] { return sum(square(layer->forward(x, causal(), {}))); });
    }
}

TEST(AttentionLayer, RefusesHeadsThatDoNotFit) {
  const SoftmaxOptions softmax;
  const ConformalOptions conformal;
  expect_error<ConfigError>([&] { softmax.build(layer_context(10, 3, false)); }, "divides");
  expect_error<ConfigError>([&] { softmax.build(layer_context(9, 3, true)); }, "even");
  expect_error<ConfigError>([&] { conformal.build(layer_context(3, 3, false)); }, "at least 2");
}

TEST(ConformalLayer, StartsAtTheGivenAlphaAndMayKeepIt) {
  for (const double alpha : {1e-3, 1.0, 4.0, 60.0}) {
    ConformalOptions options;
    options.alpha = alpha;
    const auto learned = options.build(layer_context(4, 2, false));
    for (const double raw : testing::parameter_of(*learned, "raw_alpha").data().to_vector<double>())
      EXPECT_NEAR(std::log1p(std::exp(raw)) / alpha, 1, 1e-12);
    options.learn_alpha = false;
    const auto fixed = options.build(layer_context(4, 2, false));
    EXPECT_EQ(fixed->parameter_count(), learned->parameter_count() - 2);
    ASSERT_EQ(fixed->buffers().size(), 1u);
    EXPECT_EQ(fixed->buffers()[0].name, "raw_alpha");
  }
}

TEST(ConformalLayer, CountsQueriesBeyondTheResolutionLimit) {
  ConformalOptions options;
  const Variable x(normal({2, 4, 8}, 4));
  options.alpha = 1e-6;  // only the first query is beyond: with one key the limit is 0
  const auto blunt = options.build(layer_context(8, 2, false));
  EXPECT_LT(blunt->share_beyond_resolution(), 0) << "before the first forward pass";
  blunt->forward(x, causal(), {});
  EXPECT_DOUBLE_EQ(blunt->share_beyond_resolution(), 0.25);
  options.alpha = 1e6;
  const auto sharp = options.build(layer_context(8, 2, false));
  sharp->forward(x, causal(), {});
  EXPECT_DOUBLE_EQ(sharp->share_beyond_resolution(), 1);
}

}  // namespace
}  // namespace mobius
