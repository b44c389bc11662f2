#include "data/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "core/error.h"

namespace mobius::sampling_test {
namespace {

using Draw = std::vector<std::int32_t>;

template <typename Sampler>
Draw draw(Sampler& sampler, std::uint64_t stream, std::size_t count) {
  Rng rng({7, stream});
  Draw out(count);
  sampler.draw(rng, out);
  return out;
}

// Returns the z-score of `hits` out of `n` trials of probability p; it exceeds 5 about once in a
// million.
double z_score(double hits, double n, double p) {
  return (hits - n * p) / std::sqrt(n * p * (1 - p));
}

TEST(UniformSampler, EveryOrderedChoiceIsEquallyLikely) {
  UniformSampler sampler(4);
  constexpr int kDraws = 24000;
  std::map<Draw, int> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[draw(sampler, i, 2)];
  ASSERT_EQ(counts.size(), 12u);
  for (const auto& [pair, count] : counts) {
    EXPECT_NE(pair[0], pair[1]);
    EXPECT_LT(std::abs(z_score(count, kDraws, 1.0 / 12)), 5);
  }
}

TEST(UniformSampler, CanDrawEverything) {
  UniformSampler sampler(50);
  const Draw all = draw(sampler, 1, 50);
  EXPECT_EQ(std::set<std::int32_t>(all.begin(), all.end()).size(), 50u);
  EXPECT_THROW(draw(sampler, 1, 51), Error);
}

TEST(UniformSampler, ForgetsEarlierDraws) {
  UniformSampler fresh(1000), used(1000);
  for (int i = 0; i < 100; ++i) draw(used, i, 1 + i % 30);
  EXPECT_EQ(draw(fresh, 555, 20), draw(used, 555, 20));
}

// With weights w, the pair (a, b) has probability w_a / W * w_b / (W - w_a).
TEST(WeightedSampler, DrawsOneAfterAnotherAmongThoseLeft) {
  const std::vector<std::uint64_t> weights{5, 1, 3, 2, 9};
  WeightedSampler sampler(weights);
  constexpr int kDraws = 40000;
  std::map<Draw, int> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[draw(sampler, i, 2)];
  EXPECT_EQ(counts.size(), 20u);
  for (const auto& [pair, count] : counts) {
    const double first = static_cast<double>(weights[pair[0]]);
    const double second = static_cast<double>(weights[pair[1]]);
    EXPECT_LT(std::abs(z_score(count, kDraws, first / 20 * second / (20 - first))), 5)
        << pair[0] << ", " << pair[1];
  }
}

TEST(WeightedSampler, CanDrawEverythingForAnyNumberOfWeights) {
  for (const std::size_t n : {1u, 2u, 3u, 7u, 8u, 9u, 100u}) {
    WeightedSampler sampler(std::vector<std::uint64_t>(n, 1));
    const Draw all = draw(sampler, n, n);
    EXPECT_EQ(std::set<std::int32_t>(all.begin(), all.end()).size(), n);
    EXPECT_EQ(*std::max_element(all.begin(), all.end()), static_cast<std::int32_t>(n) - 1);
    EXPECT_THROW(draw(sampler, n, n + 1), Error);
  }
}

TEST(WeightedSampler, ForgetsEarlierDraws) {
  const std::vector<std::uint64_t> weights{1, 1ull << 40, 7, 3, 1ull << 20, 12, 100};
  WeightedSampler fresh(weights), used(weights);
  for (int i = 0; i < 100; ++i) draw(used, i, 1 + i % 7);
  EXPECT_EQ(draw(fresh, 555, 7), draw(used, 555, 7));
}

}  // namespace
}  // namespace mobius::sampling_test
