#include "train/run/progress.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/run_fixture.h"

namespace mobius::progress_test {
namespace {

TEST(Format, Durations) {
  EXPECT_EQ(format_duration(7.4), "0:07");
  EXPECT_EQ(format_duration(754), "12:34");
  EXPECT_EQ(format_duration(3723), "1:02:03");
  EXPECT_EQ(format_duration(std::nan("")), "?");
}

TEST(Format, Counts) {
  EXPECT_EQ(format_count(987), "987");
  EXPECT_EQ(format_count(12345), "12.3k");
  EXPECT_EQ(format_count(4560000), "4.56M");
}

const ProgressState kHalf{.step = 50,
                          .max_steps = 100,
                          .loss = 1.25,
                          .accuracy = 0.5,
                          .tokens_per_s = 2000,
                          .seconds_left = 65};

TEST(ProgressBar, FitsItsWidth) {
  const std::string bar = progress_bar(kHalf, 100);
  EXPECT_LT(bar.size(), 100u);
  EXPECT_NE(bar.find("50/100  loss 1.2500  accuracy 50.0%  2k tokens/s  1:05 left"),
            std::string::npos)
      << bar;
  EXPECT_LT(progress_bar(kHalf, 40).size(), 40u);
}

TEST(ProgressBar, ShowsThePerplexityOfText) {
  ProgressState state = kHalf;
  state.perplexity = 3.4903;
  const std::string bar = progress_bar(state, 100);
  EXPECT_NE(bar.find("loss 1.2500  perplexity 3.49  2k tokens/s"), std::string::npos) << bar;
}

TEST(ProgressBar, ShowsNanWithoutASign) {
  ProgressState state = kHalf;
  state.loss = -std::nan("");
  const std::string bar = progress_bar(state, 100);
  EXPECT_NE(bar.find("loss nan"), std::string::npos) << bar;
}

TEST(ProgressBar, ShowsParts) {
  const PartsState state{.what = "d = 64", .done = 5, .total = 10, .seconds_left = 62};
  const std::string bar = progress_bar(state, 60);
  EXPECT_EQ(bar, "[===============>              ] 5/10  d = 64  1:02 left");
  EXPECT_LT(progress_bar(state, 30).size(), 30u);
}

TEST(Progress, PrintsPlainLinesWhereThereIsNoTerminal) {
  const TemporaryFolder folder;
  std::FILE* file = std::fopen((folder / "log").c_str(), "w");
  {
    Progress progress(file);
    progress.show(kHalf, true);
    progress.show(kHalf, false);
    progress.say("saved in a\x1b[2J");
  }
  std::fclose(file);
  EXPECT_EQ(
      read_text(folder / "log"),
      "step 50/100  loss 1.2500  accuracy 50.0%  2k tokens/s  1:05 left\nsaved in a\\x1b[2J\n");
}

}  // namespace
}  // namespace mobius::progress_test
