// Which tokens may come next, and how often they do.
#include "nn/sampling.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/nn/nn_testing.h"

namespace mobius::sampling_test {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::Pointwise;

// Of probabilities 0.1, 0.4, 0.2, 0.3.
const std::vector<double> logits{std::log(1.0), std::log(4.0), std::log(2.0), std::log(3.0)};

void expect_probabilities(const SamplingOptions& options, const std::vector<double>& expected) {
  const std::vector<double> got = next_token_probabilities(logits, options);
  EXPECT_THAT(got, Pointwise(DoubleNear(1e-14), expected));
}

TEST(Sampling, IsASoftmax) { expect_probabilities({}, {0.1, 0.4, 0.2, 0.3}); }

TEST(Sampling, TemperatureSharpensAndFlattens) {
  expect_probabilities({.temperature = 0.5}, {1 / 30.0, 16 / 30.0, 4 / 30.0, 9 / 30.0});
  expect_probabilities({.temperature = 1e18}, {0.25, 0.25, 0.25, 0.25});
  expect_probabilities({.temperature = 0}, {0, 1, 0, 0});
}

TEST(Sampling, KeepsTheLikeliest) {
  expect_probabilities({.top_k = 1}, {0, 1, 0, 0});
  expect_probabilities({.top_k = 2}, {0, 4 / 7.0, 0, 3 / 7.0});
  expect_probabilities({.top_k = 9}, {0.1, 0.4, 0.2, 0.3});
  // The smallest set that reaches the probability: 0.4, then 0.7, then 0.9.
  expect_probabilities({.top_p = 0.39}, {0, 1, 0, 0});
  expect_probabilities({.top_p = 0.41}, {0, 4 / 7.0, 0, 3 / 7.0});
  expect_probabilities({.top_p = 0.75}, {0, 4 / 9.0, 2 / 9.0, 3 / 9.0});
  expect_probabilities({.top_p = 1}, {0.1, 0.4, 0.2, 0.3});
  // Of the two that top_k leaves, 4/7 is enough.
  expect_probabilities({.top_k = 2, .top_p = 0.5}, {0, 1, 0, 0});
}

TEST(Sampling, OfEqualTokensTheSmallerStays) {
  const std::vector<double> equal{0, 2, 2, 2};
  EXPECT_THAT(next_token_probabilities(equal, {.temperature = 0}), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(next_token_probabilities(equal, {.top_k = 2}), ElementsAre(0, 0.5, 0.5, 0));
}

TEST(Sampling, DrawsAsOftenAsTheProbabilitiesSay) {
  Rng rng({.seed = 5, .stream = 1});
  std::vector<double> counts(4, 0);
  constexpr int n = 20000;
  for (int i = 0; i < n; ++i) ++counts[static_cast<std::size_t>(sample_token(logits, {}, rng))];
  for (std::size_t token = 0; token < 4; ++token) {
    const double p = std::exp(logits[token]) / 10;
    EXPECT_NEAR(counts[token] / n, p, 4 * std::sqrt(p * (1 - p) / n)) << token;
  }
}

TEST(Sampling, TheSameSeedDrawsTheSameTokens) {
  const auto draw = [] {
    Rng rng({.seed = 8, .stream = 1});
    std::vector<std::int64_t> tokens;
    for (int i = 0; i < 50; ++i)
      tokens.push_back(sample_token(logits, {.temperature = 0.8, .top_k = 3}, rng));
    return tokens;
  };
  EXPECT_EQ(draw(), draw());
}

TEST(Sampling, RefusesWhatItCannotDraw) {
  Rng rng({.seed = 1, .stream = 1});
  expect_error<ConfigError>([&] { sample_token(logits, {.temperature = -1}, rng); },
                            "sampling: temperature: must be >= 0, got -1");
  expect_error<ConfigError>([&] { sample_token(logits, {.top_k = 0}, rng); },
                            "sampling: top_k: must be > 0, got 0");
  expect_error<ConfigError>([&] { sample_token(logits, {.top_p = 1.5}, rng); },
                            "sampling: top_p: must be in (0, 1], got 1.5");
  const std::vector<double> nothing(3, -HUGE_VAL), poisoned{0, std::nan("")};
  expect_error<Error>([&] { sample_token(nothing, {}, rng); }, "expected a finite logit, got none");
  expect_error<Error>([&] { sample_token(poisoned, {}, rng); }, "a logit is not a number");
}

}  // namespace
}  // namespace mobius::sampling_test
