#include "data/mixture.h"

#include <gtest/gtest.h>

namespace mobius::mixture_test {
namespace {

TEST(MixtureSchedule, EveryStretchHoldsTheWeights) {
  const std::vector<double> weights{1, 2, 5};
  const MixtureSchedule schedule(weights, 11);
  for (const std::uint64_t start : {0ull, 12345ull, 1ull << 40}) {
    std::vector<int> counts(3);
    for (std::uint64_t step = start; step < start + 800; ++step) ++counts.at(schedule.at(step));
    EXPECT_NEAR(counts[0], 100, 5);
    EXPECT_NEAR(counts[1], 200, 5);
    EXPECT_NEAR(counts[2], 500, 5);
  }
}

TEST(MixtureSchedule, DependsOnSeedAndStepAlone) {
  const std::vector<double> weights{1, 1};
  const MixtureSchedule one(weights, 1), same(weights, 1), other(weights, 2);
  int differing = 0;
  for (std::uint64_t step = 0; step < 100; ++step) {
    EXPECT_EQ(one.at(step), same.at(step));
    differing += one.at(step) != other.at(step);
  }
  EXPECT_GT(differing, 0);
}

TEST(MixtureSchedule, OneComponentIsAlwaysChosen) {
  const MixtureSchedule schedule(std::vector<double>{0.3}, 1);
  for (std::uint64_t step = 0; step < 100; ++step) EXPECT_EQ(schedule.at(step), 0);
}

}  // namespace
}  // namespace mobius::mixture_test
