#include "train/optim/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace mobius::schedule_test {
namespace {

std::vector<double> rates(const ScheduleOptions& schedule, std::int64_t max_steps) {
  std::vector<double> rates;
  for (std::int64_t step = 0; step < max_steps; ++step) {
    rates.push_back(learning_rate(schedule, 2.0, step, max_steps));
  }
  return rates;
}

TEST(Schedule, ConstantStaysAtThePeak) {
  EXPECT_EQ(rates({.kind = Decay::constant}, 4), (std::vector<double>{2, 2, 2, 2}));
}

TEST(Schedule, WarmsUpLinearlyToThePeak) {
  const auto lr = rates({.kind = Decay::constant, .warmup_steps = 4}, 6);
  EXPECT_EQ(lr, (std::vector<double>{0.5, 1, 1.5, 2, 2, 2}));
}

TEST(Schedule, LinearEndsAtTheMinimum) {
  const auto lr = rates({.kind = Decay::linear, .warmup_steps = 2, .min_lr_ratio = 0.1}, 7);
  const std::vector<double> expected = {1, 2, 2, 1.55, 1.1, 0.65, 0.2};
  for (std::size_t i = 0; i < lr.size(); ++i) EXPECT_NEAR(lr[i], expected[i], 1e-12) << i;
}

TEST(Schedule, CosineIsHalfWayInTheMiddleAndEndsAtTheMinimum) {
  const auto lr = rates({.kind = Decay::cosine, .min_lr_ratio = 0.5}, 101);
  EXPECT_DOUBLE_EQ(lr.front(), 2);
  EXPECT_DOUBLE_EQ(lr[50], 1.5);
  EXPECT_DOUBLE_EQ(lr.back(), 1);
}

TEST(Schedule, WithoutRoomToDecayStaysAtThePeak) {
  EXPECT_EQ(rates({.kind = Decay::cosine}, 1), (std::vector<double>{2}));
  EXPECT_EQ(rates({.kind = Decay::cosine, .warmup_steps = 2}, 2), (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace mobius::schedule_test
