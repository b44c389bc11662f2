#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/run_comparison.h"

namespace mobius {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class CompareTest : public testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "tiny.yaml", kTinyRun);
    write_text(comparison_, R"(
base: tiny.yaml
variations:
  - name: softmax
    attention.kind: softmax
  - name: conformal
    attention: {kind: conformal, alpha: 2.0}
)");
  }
  std::vector<std::string> arguments(const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"compare", comparison_, "--out", folder_ / "out"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  TemporaryFolder folder_;
  const std::string comparison_ = folder_ / "comparison.yaml";
};

TEST_F(CompareTest, TrainsEachAndPrintsATable) {
  const Outcome outcome = mobius(arguments());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("steps_to_99"), HasSubstr("\nsoftmax   "),
                                 HasSubstr("\nconformal ")));
  const std::vector<std::string> csv = lines_of(read_text(folder_ / "out" / "comparison.csv"));
  ASSERT_EQ(csv.size(), 3u);
  EXPECT_EQ(csv[0], "name,accuracy,loss,steps,steps_to_99,step_ms,parameters");
  EXPECT_THAT(csv[1], StartsWith("softmax,"));
  EXPECT_THAT(csv[2], StartsWith("conformal,"));
  EXPECT_THAT(read_text(folder_ / "out" / "conformal" / "config.yaml"),
              AllOf(HasSubstr("kind: conformal"), HasSubstr("alpha: 2.0")));
}

TEST_F(CompareTest, SkipsWhatIsFinished) {
  ASSERT_EQ(mobius(arguments()).exit_code, 0);
  const std::string csv = read_text(folder_ / "out" / "comparison.csv");
  fs::remove(folder_ / "out" / "comparison.csv");
  fs::remove_all(folder_ / "out" / "conformal");
  const Outcome again = mobius(arguments());
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.out, HasSubstr("softmax: finished before, skipped"));
  EXPECT_EQ(again.out.find("conformal: finished before"), std::string::npos);
  EXPECT_EQ(lines_of(read_text(folder_ / "out" / "comparison.csv")).at(1), lines_of(csv).at(1));
}

TEST_F(CompareTest, GoesOnWithAnInterruptedVariation) {
  const std::vector<std::string> longer = {"train.max_steps=300", "eval.every=0"};
  auto straight = arguments(longer);
  straight[3] = folder_ / "straight";
  ASSERT_EQ(mobius(straight).exit_code, 0);

  Process process(mobius_command(arguments(longer)));
  ASSERT_TRUE(wait_until([&] {
    return lines_of(read_text(folder_ / "out" / "conformal" / "metrics.jsonl")).size() > 5;
  }));
  process.kill(SIGTERM);
  EXPECT_EQ(process.wait().exit_code, 4);
  EXPECT_FALSE(fs::exists(folder_ / "out" / "comparison.csv"));

  const Outcome outcome = mobius(arguments(longer));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("softmax: finished before, skipped"), HasSubstr("resume: step ")));
  expect_same_run(folder_ / "straight" / "conformal", folder_ / "out" / "conformal", 300);
}

TEST_F(CompareTest, GoesOnAfterAVariationThatDiverges) {
  write_text(comparison_, R"(
base: tiny.yaml
variations:
  - name: wild
    optimizer.lr: 1.0e+30
  - name: tame
    optimizer.lr: 1.0e-03
)");
  const Outcome outcome = mobius(arguments());
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  const std::vector<std::string> csv = lines_of(read_text(folder_ / "out" / "comparison.csv"));
  ASSERT_EQ(csv.size(), 3u);
  EXPECT_THAT(csv[1], StartsWith("wild,diverged,"));
  EXPECT_THAT(csv[2], StartsWith("tame,0."));
}

TEST_F(CompareTest, RefusesResultsOfAnotherConfiguration) {
  ASSERT_EQ(mobius(arguments()).exit_code, 0);
  const Outcome outcome = mobius(arguments({"optimizer.lr=0.5"}));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("optimizer.lr = 0.001, but the comparison says 0.5"));
}

TEST_F(CompareTest, ChecksEveryVariationBeforeItStarts) {
  const Outcome outcome = mobius(arguments({"optimizer.lrr=0.5"}));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("optimizer.lrr"));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

}  // namespace
}  // namespace mobius
