// After wrong usage, the commands say what works instead.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/run_comparison.h"

namespace mobius::advice_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class AdviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_text(run_, kTinyRun);
    write_text(comparison_, "base: run.yaml\ngrid:\n  train.seed: [1, 2]\n");
  }
  // Expects one line from the program itself.
  static void expect_error(const Outcome& outcome, const std::string& part) {
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, AllOf(StartsWith("mobius: error: "), HasSubstr(part)));
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
  }
  Outcome show(const std::vector<std::string>& overrides) {
    std::vector<std::string> arguments = {"config", "show", run_};
    arguments.insert(arguments.end(), overrides.begin(), overrides.end());
    return mobius(arguments);
  }

  TemporaryFolder folder_;
  const std::string run_ = folder_ / "run.yaml", comparison_ = folder_ / "comparison.yaml";
};

TEST_F(AdviceTest, AComparisonIsNoRun) {
  for (const char* command : {"train", "show"}) {
    std::vector<std::string> arguments = {command, comparison_};
    if (command == std::string("show")) arguments.insert(arguments.begin(), "config");
    expect_error(mobius(arguments),
                 "comparison.yaml:2:1: grid: makes this a comparison, which 'mobius compare " +
                     comparison_ + "' trains");
  }
  expect_error(mobius({"train", run_, "grid.optimizer.lr=[1, 2]"}),
               "override grid.optimizer.lr=[1, 2]: grid: makes this a comparison");
  expect_error(mobius({"import", comparison_, "x.safetensors", "x.h5"}), "'mobius compare ");
}

TEST_F(AdviceTest, ARunIsNoComparison) {
  expect_error(mobius({"compare", run_}), "one run is trained by 'mobius train " + run_ + "'");
  write_text(folder_ / "outer.yaml", "base: comparison.yaml\ngrid: {train.seed: [1]}\n");
  expect_error(mobius({"compare", folder_ / "outer.yaml"}),
               "outer.yaml:1:7: base: expected the configuration of a run, but");
}

// The test follows the advice literally.
TEST_F(AdviceTest, AWarmUpLongerThanTheRunNamesTheOverrideThatMendsIt) {
  write_text(run_, std::string(kTinyRun) + "schedule: {warmup_steps: 100}\n");
  const Outcome refused = show({"train.max_steps=20"});
  expect_error(refused,
               "run.yaml:7:12: schedule.warmup_steps: must not exceed train.max_steps = 20");
  EXPECT_THAT(refused.err, HasSubstr("; add schedule.warmup_steps=2\n"));
  EXPECT_EQ(show({"train.max_steps=20", "schedule.warmup_steps=2"}).exit_code, 0);
}

TEST_F(AdviceTest, AnotherKindNamesTheOverrideThatReplacesTheSection) {
  write_text(run_, std::string(kTinyRun) + "attention: {kind: conformal, alpha: 3}\n");
  const Outcome refused = show({"attention.kind=softmax"});
  expect_error(
      refused,
      "run.yaml:7:30: attention.alpha: not an option of attention.kind softmax; it belongs "
      "to: conformal, conformal_hierarchical; for another section in its place give "
      "'attention={kind: softmax}'");
  const Outcome shown = show({"attention={kind: softmax}"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("kind: softmax"));
  // This also holds in a comparison whose base has the section.
  const Outcome list = mobius(
      {"compare", comparison_, "attention={kind: softmax}", "--list", "--out", folder_ / "out"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(read_text(folder_ / "out" / "seed=1" / "config.yaml"), HasSubstr("kind: softmax"));
  // There is no advice if the mistake is in the override itself.
  EXPECT_THAT(show({"attention={kind: softmax, alpha: 2}"}).err, Not(HasSubstr("in its place")));
}

TEST_F(AdviceTest, AnOverrideThatTheGridSetsTooIsAnError) {
  const auto compare = [&](const std::string& override) {
    return mobius({"compare", comparison_, override, "--list", "--out", folder_ / "out"});
  };
  expect_error(
      compare("train.seed=3"),
      "override train.seed=3: train.seed: has no effect, for every run takes the value at ");
  expect_error(compare("train={seed: 3, max_steps: 6}"), "train.seed: has no effect");
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  EXPECT_EQ(compare("train.max_steps=4").exit_code, 0);
}

TEST_F(AdviceTest, RunsCalledLikeFilesOfOursAreRefusedAtOnce) {
  for (const char* name :
       {"report.html", "checkpoints", "CheckPoints", "-x", "a.mobius-0123abcd.tmp"}) {
    write_text(comparison_, fmt::format("base: run.yaml\nvariations: [{{name: {}}}]\n", name));
    expect_error(mobius({"compare", comparison_, "--out", folder_ / "out"}),
                 fmt::format("comparison.yaml:2:21: variations.0.name: '{}' ", name));
    EXPECT_FALSE(fs::exists(folder_ / "out")) << name;
  }
}

TEST_F(AdviceTest, AReportOnNothingMakesNothing) {
  const std::string typo = folder_ / "tpyo", out = folder_ / "out";
  expect_error(mobius({"compare", "--report", typo}), "tpyo: is not a folder");
  EXPECT_FALSE(fs::exists(typo));
  expect_error(mobius({"compare", "--report", typo, "--out", out}), "tpyo: is not a folder");
  EXPECT_FALSE(fs::exists(out));
  fs::create_directory(typo);
  expect_error(mobius({"compare", "--report", typo, "--out", out}), "no run lies in this folder");
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(AdviceTest, AnErrorPointsAtTheHelpOfItsCommand) {
  const auto hint_of = [](const std::vector<std::string>& arguments) {
    const Outcome outcome = mobius(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    const std::vector<std::string> lines = lines_of(outcome.err);
    EXPECT_EQ(lines.size(), 2u) << outcome.err;
    return lines.back();
  };
  EXPECT_EQ(hint_of({}), "Run 'mobius --help' for what it takes.");
  EXPECT_EQ(hint_of({"train"}), "Run 'mobius train --help' for what it takes.");
  EXPECT_EQ(hint_of({"compare", "x.yaml", "--jobs"}),
            "Run 'mobius compare --help' for what it takes.");
  EXPECT_EQ(hint_of({"config"}), "Run 'mobius config --help' for what it takes.");
  EXPECT_EQ(hint_of({"config", "show"}), "Run 'mobius config show --help' for what it takes.");
}

TEST_F(AdviceTest, TheDefaultOfJobsIsSaid) {
  EXPECT_THAT(mobius({"compare", "--help"}).out, ::testing::ContainsRegex("--jobs[^\n]*=1 "));
}

TEST_F(AdviceTest, HelpIsOfEveryKeyOrOfOneSection) {
  const std::string all = mobius({"config", "help"}).out;
  for (const char* key : {"\n  base ", "\n  variations ", "\ngrid: ", "train.max_steps"}) {
    EXPECT_THAT(all, HasSubstr(key));
  }
  const Outcome section = mobius({"config", "help", "train.early_stop"});
  EXPECT_EQ(section.exit_code, 0);
  EXPECT_THAT(section.out, AllOf(HasSubstr("train.early_stop.threshold"), Not(HasSubstr("lr"))));
  expect_error(mobius({"config", "help", "trian"}),
               "there is no section or key 'trian'; did you mean 'train'?");
}

TEST_F(AdviceTest, HelpIsAsWideAsTheTerminal) {
  std::size_t widest = 0;
  for (const std::string& line : lines_of(mobius_on_terminal({"config", "help"}))) {
    widest = std::max(widest, line.size() - (line.ends_with('\r') ? 1 : 0));
  }
  EXPECT_LE(widest, 120u);
  EXPECT_GT(widest, 90u);
}

}  // namespace
}  // namespace mobius::advice_test
