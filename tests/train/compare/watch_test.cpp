#include "train/compare/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/train/run_fixture.h"

namespace mobius::watch_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Plot, PutsPointsWhereTheyBelong) {
  const Curve falling{"falling", {{0, 6}, {50, 1}}};
  EXPECT_EQ(plot("loss", {falling}, 19, 6),
            "loss\n"
            "         6 |a     \n"
            "           | a    \n"
            "           |  a   \n"
            "           |   a  \n"
            "           |    a \n"
            "         1 |     a\n"
            "      step  0   50\n");
}

TEST(Plot, GivesEachCurveALetter) {
  EXPECT_EQ(plot("t", {{"x", {{1, 0}, {2, 0}}}, {"none", {}}, {"y", {{1, 1}, {2, 1}}}}, 23, 6),
            "t\n"
            "         1 |cccccccccc\n"
            "           |          \n"
            "           |          \n"
            "           |          \n"
            "           |          \n"
            "         0 |aaaaaaaaaa\n"
            "      step  1        2\n");
}

TEST(Plot, StandsASinglePointAndNone) {
  EXPECT_THAT(plot("t", {{"x", {{5, 2}}}}, 40, 6), HasSubstr("|a "));
  EXPECT_EQ(plot("t", {{"x", {}}}, 40, 6), "t: nothing yet\n");
}

// No run writes such numbers, but a file may hold them.
TEST(Plot, ShowsNumbersAtTheirLimits) {
  const double most = std::numeric_limits<double>::max();
  EXPECT_EQ(plot("t", {{"x", {{0, -most}, {1, 0}, {2, most}}}}, 19, 7),
            "t\n"
            "1.798e+308 |     a\n"
            "           |    a \n"
            "           |    a \n"
            "           |   a  \n"
            "           |  a   \n"
            "           | a    \n"
            "-1.798e+308 |a     \n"
            "      step  0    2\n");
}

TEST(Watch, ReadsRunsAndComparisons) {
  const TemporaryFolder folder;
  const Registries known;
  std::filesystem::create_directories(folder / "all");
  EXPECT_TRUE(watched_runs(folder / "all").empty());
  EXPECT_FALSE(has_ended({}));
  train_in(folder / "all/a", known);
  train_in(folder / "all/b", known, {"attention.kind=linear"});
  const auto runs = watched_runs(folder / "all");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(watched_runs(runs[0]), std::vector{runs[0]});
  EXPECT_TRUE(has_ended(runs));
  EXPECT_THAT(watch_screen(runs, 60, 20),
              AllOf(HasSubstr("test loss"), HasSubstr("test accuracy"), HasSubstr("  a a  loss 3."),
                    HasSubstr("  b b  loss 3.")));
  EXPECT_THAT(watch_screen(runs, 60, 20), ::testing::Not(HasSubstr("diverged")));
  EXPECT_THROW(train_in(folder / "all/c", known, {"optimizer.lr=1e30"}), TrainingDiverged);
  EXPECT_THAT(watch_screen(watched_runs(folder / "all"), 60, 20), HasSubstr("  c c  diverged\n"));
  EXPECT_THROW(watched_runs(folder / "none"), ConfigError);
}

}  // namespace
}  // namespace mobius::watch_test
