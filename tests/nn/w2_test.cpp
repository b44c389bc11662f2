#include "nn/attention/w2.h"

#include "nn/language_model.h"
#include "tests/nn/layer_testing.h"
#include "tests/nn/nn_testing.h"

namespace mobius::w2_test {
namespace {

using testing::normal;

// [mu ; raw], B = 2, H = 2.
Variable raw_gaussians(std::int64_t n, std::int64_t d, std::uint64_t stream) {
  return Variable(normal({2, 2, n, 2 * d}, stream));
}

TEST(W2, IsTheClosedFormSymmetricAndZeroForEqualGaussians) {
  const std::int64_t n = 5, d = 3;
  const Gaussians a = gaussians_from(raw_gaussians(n, d, 1)),
                  b = gaussians_from(raw_gaussians(n, d, 2));
  const Tensor ab = squared_w2_distance(a, b).data(), ba = squared_w2_distance(b, a).data(),
               aa = squared_w2_distance(a, a).data();
  EXPECT_EQ(ab.to_vector<double>(), ba.transpose(-1, -2).contiguous().to_vector<double>());
  for (const Tensor& distances : {ab, aa})
    for (const double distance : distances.to_vector<double>()) EXPECT_GE(distance, 0);
  for (std::int64_t i = 0; i < n; ++i)
    EXPECT_EQ(sum_of_squares(aa.slice(2, i, i + 1).slice(3, i, i + 1).contiguous()), 0);

  // (m_a - m_b)^2 + (s_a - s_b)^2 is W2^2 of two Gaussians on the line; dimensions add.
  const std::vector<double> mu_a = a.mu.data().to_vector<double>(),
                            mu_b = b.mu.data().to_vector<double>(),
                            sigma_a = a.sigma.data().to_vector<double>(),
                            sigma_b = b.sigma.data().to_vector<double>(),
                            got = ab.to_vector<double>();
  const auto un = static_cast<std::size_t>(n), ud = static_cast<std::size_t>(d);
  for (std::size_t head = 0; head < 4; ++head)
    for (std::size_t i = 0; i < un; ++i)
      for (std::size_t j = 0; j < un; ++j) {
        double expected = 0;
        for (std::size_t t = 0; t < ud; ++t) {
          const std::size_t at_a = (head * un + i) * ud + t, at_b = (head * un + j) * ud + t;
          expected +=
              std::pow(mu_a[at_a] - mu_b[at_b], 2) + std::pow(sigma_a[at_a] - sigma_b[at_b], 2);
        }
        EXPECT_NEAR(got[(head * un + i) * un + j], expected, 1e-13 * expected);
      }
}

TEST(W2, WeightsAreASoftmaxOfTheDistanceOverTau) {
  const Variable q = raw_gaussians(4, 3, 1), k = raw_gaussians(6, 3, 2);
  const Variable tau(placed::from(std::vector<double>{0.5, 7}, {2, 1, 1}));
  const Variable scores =
      neg(squared_w2_distance(gaussians_from(q), gaussians_from(k)) / affine(tau, 1, 1e-6));
  const Tensor expected = masked_softmax(scores.data(), 1, testing::causal());
  EXPECT_LT(testing::distance(
                attention_weights(w2_call({.q = q, .k = k, .mask = testing::causal()}, tau)).data(),
                expected),
            1e-13);
}

TEST(W2Overlap, WeightsAreASoftmaxOfItsScores) {
  const Variable raw_q = raw_gaussians(4, 3, 1), raw_k = raw_gaussians(6, 3, 2);
  const Gaussians q = gaussians_from(raw_q), k = gaussians_from(raw_k);
  const auto point = [](const Gaussians& g) {
    return Gaussians{.mu = g.mu / sqrt(g.sigma), .sigma = Variable(g.sigma.data().zeros_like())};
  };
  const auto log_volume = [](const Gaussians& g, Shape shape) {
    return reshape(sum(log(g.sigma), {-1}), std::move(shape));
  };
  const Variable scores = scale(squared_w2_distance(point(q), point(k)) +
                                    log_volume(q, {2, 2, 4, 1}) + log_volume(k, {2, 2, 1, 6}),
                                -0.5);
  const Tensor expected = masked_softmax(scores.data(), 1, {});
  EXPECT_LT(testing::distance(attention_weights(w2_overlap_call({.q = raw_q, .k = raw_k})).data(),
                              expected),
            1e-13);
}

TEST(W2, SigmaIsPositiveHoweverSmallTheRawValue) {
  const Gaussians g = gaussians_from(Variable(placed::full({1, 1, 1, 2}, -1e4)));
  EXPECT_FLOAT_EQ(static_cast<float>(g.sigma.item()), 1e-4f);
}

// The published count leaves out tau, 4 numbers a layer. That of the standard block is a test of
// the language model.
TEST(W2, HasThePublishedParameterCount) {
  const auto count = [](const AttentionOptions& attention) {
    return LanguageModel(testing::published_model(64, 4, 256), attention, 1024, 128, 0)
        .parameter_count();
  };
  W2Options options;
  options.learn_tau = false;
  EXPECT_EQ(count(options), 278912);
  EXPECT_EQ(count(W2OverlapOptions()), 278912);
  EXPECT_EQ(count(W2Options()), 278912 + 2 * 4);
}

TEST(W2, TauStartsAtTwiceTheRootOfTheHeadDimension) {
  const LanguageModel model(testing::published_model(64, 4, 256), W2Options(), 32, 8, 0);
  for (const auto& attention : model.attentions())
    for (const double tau : testing::parameter_told(*attention, "tau")) EXPECT_NEAR(tau, 8, 1e-5);
  W2Options options;
  options.tau = 0.5;
  const LanguageModel sharp(testing::published_model(64, 4, 256), options, 32, 8, 0);
  EXPECT_NEAR(testing::parameter_told(*sharp.attentions()[0], "tau").at(0), 0.5, 1e-6);
}

}  // namespace
}  // namespace mobius::w2_test
