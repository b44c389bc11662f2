#include "train/compare/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/train/run_fixture.h"
#include "train/compare/comparison_output.h"

namespace mobius::comparison_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ComparisonTest : public ::testing::Test {
 protected:
  // Writes the files of a run; `accuracy` is in hundredths.
  void run(const std::string& name, const std::string& rate, int accuracy, double loss,
           RunStatus status = RunStatus::finished) {
    unfinished_run(name, rate);
    RunSummary summary;
    summary.status = status;
    summary.test =
        Score{.loss_sum = 100 * loss, .n_labels = 100, .n_correct = accuracy, .n_scored = 100};
    write_summary(folder_ / name / "summary.json", summary);
  }
  void unfinished_run(const std::string& name, const std::string& rate) {
    fs::create_directories(folder_ / name);
    write_text(folder_ / name / "config.yaml",
               run_config_text("checkpoint: {metric: accuracy}\noptimizer: {lr: " + rate +
                               ", betas: [0.9, 0.95]}\n"));
  }
  std::vector<std::string> variants() {
    std::vector<std::string> names;
    const Comparison comparison({folder_.path()});
    for (const ComparedVariant& variant : comparison.variants()) {
      names.push_back(variant.name + " " + variant.shown().learning_rate);
    }
    return names;
  }

  TemporaryFolder folder_;
};

TEST(Statistic, HasTheSampleDeviation) {
  const Statistic three = statistic_of({1, 2, 6});
  EXPECT_EQ(three.count, 3u);
  EXPECT_DOUBLE_EQ(three.mean, 3);
  EXPECT_DOUBLE_EQ(three.deviation.value(), std::sqrt(7));
  EXPECT_FALSE(statistic_of({5}).deviation);
  EXPECT_EQ(statistic_of({}).count, 0u);
  EXPECT_FALSE(statistic_of({1, HUGE_VAL}).deviation);
}

TEST_F(ComparisonTest, TheBestMeanOverSeedsWins) {
  run("a-lr=1-seed=1", "1", 90, 1);
  run("a-lr=1-seed=2", "1", 10, 1);
  run("a-lr=2-seed=1", "2", 60, 9);
  run("a-lr=2-seed=2", "2", 60, 9);
  run("b-lr=1-seed=1", "1", 55, 1);
  EXPECT_THAT(variants(), ElementsAre("a 2", "b 1"));
}

TEST_F(ComparisonTest, EqualOnesAreToldApartByTheirLoss) {
  run("a-lr=1", "1", 100, 0.2);
  run("a-lr=2", "2", 100, 0.1);
  run("b-lr=1", "1", 100, 0.15);
  EXPECT_THAT(variants(), ElementsAre("a 2", "b 1"));
}

TEST_F(ComparisonTest, ALearningRateWithARunThatDivergedIsNotTheBest) {
  run("a-lr=1-seed=1", "1", 100, 0);
  run("a-lr=1-seed=2", "1", 0, 0, RunStatus::diverged);
  run("a-lr=2-seed=1", "2", 50, 1);
  run("a-lr=2-seed=2", "2", 50, 1);
  unfinished_run("b-lr=1", "1");
  EXPECT_THAT(variants(), ElementsAre("a 2", "b 1"));
}

// Earlier versions wrote such a run as finished, with a loss of null.
TEST_F(ComparisonTest, ALossThatIsNotFiniteNeverWins) {
  run("a-lr=1", "1", 50, 1);
  run("a-lr=2", "2", 50, std::numeric_limits<double>::quiet_NaN());
  run("b-lr=2", "2", 100, HUGE_VAL);
  run("c-lr=1", "1", 10, 3);
  EXPECT_THAT(variants(), ElementsAre("a 1", "c 1", "b 2"));
  const Comparison comparison({folder_.path()});
  const std::vector<std::string> text = lines_of(to_text(comparison));
  EXPECT_THAT(text.at(1), AllOf(HasSubstr("a "), HasSubstr("0.5000"), HasSubstr("lr 2 diverged")));
  EXPECT_THAT(text.at(3), AllOf(HasSubstr("b "), HasSubstr("0/1 runs, diverged")));
  EXPECT_THAT(lines_of(to_csv(comparison)),
              ::testing::Contains(::testing::StartsWith("run,b-lr=2,b,2,1,0,diverged,,,,,")));
  const auto json = nlohmann::json::parse(to_json(comparison));
  EXPECT_EQ(json["variants"][0]["learning_rates"][1]["diverged_runs"], 1);
  EXPECT_EQ(json["variants"][2]["best"]["diverged_runs"], 1);
  EXPECT_FALSE(json["variants"][2]["best"].contains("loss"));
  EXPECT_EQ(json["runs"][1]["status"], "diverged");
  EXPECT_TRUE(json["runs"][1]["loss"].is_null());
  EXPECT_FALSE(json["runs"][1].contains("accuracy"));
}

TEST_F(ComparisonTest, RunsOfOneNameAreToldApartByTheirFolders) {
  run("one/a", "1", 50, 1);
  run("two/a", "2", 60, 1);
  const Comparison comparison({folder_ / "one", folder_ / "two", folder_ / "two/a"});
  ASSERT_EQ(comparison.runs().size(), 2u);
  EXPECT_EQ(comparison.runs()[0].name, "one/a");
  EXPECT_EQ(comparison.variants()[0].name, "two/a");
  EXPECT_THAT(comparison.differing_keys(), ElementsAre("optimizer.lr"));
}

TEST_F(ComparisonTest, RefusesFoldersWithoutRuns) {
  EXPECT_THAT(error_of<ConfigError>([&] { Comparison({folder_.path()}); }),
              HasSubstr("no run lies in this folder"));
  EXPECT_THAT(error_of<ConfigError>([&] { Comparison({folder_ / "none"}); }),
              HasSubstr("is not a folder"));
}

TEST_F(ComparisonTest, TablesHoldWhatThereIs) {
  run("a", "1", 50, 1);
  unfinished_run("b", "2");
  write_text(
      folder_ / "b/config.yaml",
      run_config_text("checkpoint: {metric: accuracy}\noptimizer: {lr: 1, betas: [0.9, 0.99]}\n"));
  fs::create_directories(folder_ / "of others");
  write_text(folder_ / "of others/config.yaml", "optimizer: {lr: 7}\n");
  const Comparison comparison({folder_.path()});
  const std::vector<std::string> text = lines_of(to_text(comparison));
  EXPECT_THAT(text.at(0), AllOf(HasSubstr("accuracy"), HasSubstr("loss")));
  EXPECT_EQ(text.at(0).find("perplexity"), std::string::npos);
  EXPECT_THAT(text.at(2), AllOf(HasSubstr("b "), HasSubstr("0/1 runs")));
  EXPECT_THAT(lines_of(to_csv(comparison)).back(),
              AllOf(HasSubstr("run,b,b,1,1,0,unfinished,,"), HasSubstr("\"[0.9, 0.99]\"")));
  const auto json = nlohmann::json::parse(to_json(comparison));
  EXPECT_EQ(json["variants"][0]["best"]["accuracy"]["mean"], 0.5);
  EXPECT_EQ(json["runs"][1]["status"], "unfinished");
  EXPECT_EQ(json["runs"][1]["differences"]["optimizer.betas"], "[0.9, 0.99]");
}

TEST_F(ComparisonTest, TextHasItsOwnNumbers) {
  fs::create_directories(folder_ / "a");
  write_text(folder_ / "a/config.yaml", "optimizer: {lr: 1}\n");
  RunSummary summary;
  summary.test = Score{.loss_sum = 2, .n_labels = 1};
  summary.language = LanguageScore{.perplexity = 7.389, .bits_per_byte = 1.5};
  write_summary(folder_ / "a/summary.json", summary);
  const Comparison comparison({folder_.path()});
  EXPECT_EQ(comparison.metric(), Metric::loss);
  const std::string text = to_text(comparison);
  EXPECT_THAT(text, AllOf(HasSubstr("7.389"), HasSubstr("1.5000"), HasSubstr("bits_per_byte")));
  EXPECT_EQ(text.find("accuracy"), std::string::npos);
}

}  // namespace
}  // namespace mobius::comparison_test
