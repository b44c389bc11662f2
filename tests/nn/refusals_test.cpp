// The functional forms and the options of a variant refuse what a configuration is refused for.
#include "nn/attention/conformal/conformal.h"
#include "nn/attention/linear.h"
#include "nn/attention/performer.h"
#include "nn/attention/softmax_naive.h"
#include "nn/attention/sparse.h"
#include "nn/attention/w2.h"
#include "nn/language_model.h"
#include "nn/sampling.h"
#include "tests/nn/nn_testing.h"

namespace mobius::refusals_test {
namespace {

using testing::expect_error;
using testing::normal;

class Refusals : public ::testing::Test {
 protected:
  const Variable q{normal({1, 2, 3, 4}, 1)}, k{normal({1, 2, 5, 4}, 2)}, v{normal({1, 2, 5, 3}, 3)};
  const Variable alpha{placed::ones({2, 1, 1}, DType::f64)};
  const HeadInputs in{.q = q, .k = k, .v = v};
  const HeadInputs biased = with({.distance_bias = Variable(normal({2, 7}, 4))});
  const HeadInputs dropped = with({.dropout = 1});
  const ConformalKernel newton = conformal_kernel(ConformalWeight::newton, 4);

 private:
  HeadInputs with(const AttentionExtras& extras) const {
    HeadInputs changed = in;
    changed.extras = extras;
    return changed;
  }
};

// Its mean over the sphere normalises the kernel, which then has no place for a bias.
TEST_F(Refusals, OfConformalAttention) {
  for (const ConformalNormalize normalize :
       {ConformalNormalize::none, ConformalNormalize::analytic, ConformalNormalize::empirical}) {
    const auto attend = [&](const ConformalKernel& kernel, const HeadInputs& inputs) {
      return [&, kernel] { attention(conformal_call(inputs, alpha, kernel, normalize)); };
    };
    expect_error<Error>(attend(newton, biased), "takes no distance_bias");
    expect_error<Error>(attend(newton, dropped), "dropout");
    expect_error<ShapeError>(attend(conformal_kernel(ConformalWeight::newton, 6), in),
                             "a kernel of dimension 6");
    expect_error<Error>(attend({ConformalWeight::custom, 4, 0, 0}, in), "exponent s above 0");
    const auto weights = [&](const HeadInputs& inputs) {
      return [&] { attention_weights(conformal_call(inputs, alpha, newton, normalize)); };
    };
    expect_error<Error>(weights(biased), "distance_bias");
    const HeadInputs windowed{.q = q, .k = k, .mask = {.window = -1}};
    expect_error<Error>(weights(windowed), "may be negative");
  }
  expect_error<Error>([&] { embed_in_ball(q, k, alpha, -1); }, "exponent s above 0");
  expect_error<Error>(
      [&] {
        log_normalizer(beta_to_radius(alpha, 1), {ConformalWeight::custom, 4, -1, 0});
      },
      "exponent s above 0");
}

// The composed form is refused as the fused one is.
TEST_F(Refusals, OfExplicitWeights) {
  const BallPoints points = embed_in_ball(q, k, alpha, newton.s);
  const Variable t(placed::zeros({1, 2, 3}, DType::f64));
  AttentionCall call{.spec = {.score = ScoreMap::conformal},
                     .inputs = {.q = points.qhat, .k = points.zeta, .v = {}, .sharpness = t}};
  EXPECT_NO_THROW(attention_weights(call));
  call.inputs.distance_bias = biased.extras.distance_bias;
  expect_error<Error>([&] { attention_weights(call); }, "takes no distance_bias");
  call.inputs.distance_bias = {};
  call.spec.exponent = -1;
  expect_error<Error>([&] { attention_weights(call); }, "exponent above 0");
  expect_error<ShapeError>([&] { for_every_head(k, 3); }, "3 heads cannot share the 2");
  expect_error<ShapeError>([&] { for_every_head(slice(k, 1, 0, 0), 3); }, "cannot share the 0");
}

TEST_F(Refusals, OfSoftmaxAndItsRelatives) {
  for (const double scale : {0.0, -1.0}) {
    expect_error<Error>([&] { softmax_call(in, scale); }, "scale above 0");
    expect_error<Error>([&] { softmax_naive_weights(in, scale); }, "scale above 0");
    expect_error<Error>([&] { sparse_call(in, {}, scale); }, "scale above 0");
  }
  expect_error<Error>([&] { attention(softmax_call(dropped)); }, "dropout");
  expect_error<Error>([&] { apply_weights(softmax_naive_weights(dropped), dropped); }, "dropout");
  expect_error<Error>([&] { attention(sparse_call(dropped, {})); }, "dropout");
  expect_error<Error>([&] { attention(w2_call(dropped, alpha)); }, "dropout");
}

TEST_F(Refusals, OfGaussians) {
  const Variable flat(placed::ones({2}, DType::f64)), three(placed::ones({3, 1, 1}, DType::f64));
  expect_error<ShapeError>([&] { w2_call(in, flat); }, "tau [2]");
  expect_error<ShapeError>([&] { w2_call(in, three); }, "tau [3, 1, 1]");
  expect_error<Error>([&] { w2_call(in, alpha, -10.0); }, "rope_base");
  expect_error<Error>([&] { w2_overlap_call(in, -10.0); }, "base above 0");
}

TEST_F(Refusals, OfFeatures) {
  const auto features = [](std::int64_t m, std::int64_t d) {
    return [=] { orthogonal_gaussian(m, d, {}, DType::f64); };
  };
  expect_error<ShapeError>(features(0, 4), "[0, 4]");
  expect_error<ShapeError>(features(4, 0), "[4, 0]");
  expect_error<ShapeError>(features(-1, 4), "[-1, 4]");
  expect_error<Error>([&] { linear_attention(q, k, slice(v, 2, 0, 5), true, -1); },
                      "eps of at least 0");
}

TEST_F(Refusals, OfPositions) {
  for (const std::int64_t heads : {0, -1}) {
    expect_error<Error>([&] { alibi_slopes(heads); }, "at least 1 head");
  }
  expect_error<ShapeError>([&] { relative_bias(alpha, 2, 2, 2); }, "relative_bias");
}

// The limits of the options, whoever filled them in.
TEST_F(Refusals, OfOptions) {
  ModelOptions model = testing::published_model(8, 2, 16);
  const AttentionContext context{.model = model, .init = Initializer::without_values()};
  const auto refused = [&](auto options, const std::string& part) {
    expect_error<ConfigError>([&] { options.build(context); }, part);
  };
  const auto with = [](auto options, auto member, auto value) {
    options.*member = value;
    return options;
  };
  refused(with(SoftmaxOptions(), &SoftmaxOptions::scale, -1.0), "softmax: scale");
  refused(with(SoftmaxNaiveOptions(), &SoftmaxNaiveOptions::scale, 0.0), "softmax_naive: scale");
  refused(with(SparseOptions(), &SparseOptions::scale, -1.0), "sparse: scale");
  refused(with(ConformalOptions(), &ConformalOptions::alpha, 0.0), "conformal: alpha");
  refused(with(ConformalOptions(), &ConformalOptions::s, -1.0), "conformal: s");
  refused(with(W2Options(), &W2Options::tau, 0.0), "w2: tau");
  refused(with(PerformerOptions(), &PerformerOptions::n_features, 0), "performer: n_features");

  const auto attention = builtin_attentions().choose("softmax");
  const auto build = [&](auto member, auto value) {
    return [&, member, value] {
      ModelOptions changed = model;
      changed.*member = value;
      LanguageModel(changed, *attention, 8, 8, 1);
    };
  };
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  expect_error<ConfigError>(build(&ModelOptions::dropout, 1.0), "dropout");
  expect_error<ConfigError>(build(&ModelOptions::attention_dropout, -0.1), "attention_dropout");
  expect_error<ConfigError>(build(&ModelOptions::rope_base, 0.0), "rope_base");
  expect_error<ConfigError>(build(&ModelOptions::init_std, -1.0), "init_std");
  expect_error<ConfigError>(build(&ModelOptions::n_heads, std::int64_t{0}), "n_heads");
  expect_error<ConfigError>(build(&ModelOptions::max_distance, huge), "max_distance");
  expect_error<ConfigError>(build(&ModelOptions::d_model, huge), "d_model");
  expect_error<ConfigError>(build(&ModelOptions::d_ff, huge), "d_ff");
}

}  // namespace
}  // namespace mobius::refusals_test
