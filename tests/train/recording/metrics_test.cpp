#include "train/recording/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/train/run_fixture.h"

namespace mobius::metrics_test {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

MetricsLine line_at(std::int64_t step) {
  MetricsLine line;
  line.step = step;
  line.split = "train";
  line.loss = 0.5;
  return line;
}

std::vector<std::int64_t> steps_in(const std::filesystem::path& path) {
  std::vector<std::int64_t> steps;
  for (const std::string& line : lines_of(read_text(path))) {
    steps.push_back(Json::parse(line).at("step").get<std::int64_t>());
  }
  return steps;
}

TEST(MetricsLog, WritesOneObjectALine) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  MetricsLog log(path, 0, 0);
  MetricsLine line = line_at(3);
  line.lr = 0.001;
  line.grad_norm = 2;
  line.groups = {{"n_pairs=4", {.n_correct = 1, .n_scored = 2}}, {"n_pairs=8", {}}};
  log.write(line);
  const Json object = Json::parse(lines_of(read_text(path)).at(0));
  EXPECT_EQ(object["step"], 3);
  EXPECT_EQ(object["split"], "train");
  EXPECT_EQ(object["loss"], 0.5);
  EXPECT_EQ(object["lr"], 0.001);
  EXPECT_EQ(object["grad_norm"], 2);
  EXPECT_EQ(object["groups"]["n_pairs=4"]["accuracy"], 0.5);
  EXPECT_FALSE(object.contains("tokens_per_s"));
  EXPECT_FALSE(object.contains("share_beyond_resolution"));
}

TEST(MetricsLog, WritesWhatHeadsSayLayerByLayer) {
  const TemporaryFolder folder;
  MetricsLog log(folder / "metrics.jsonl", 0, 0);
  MetricsLine line = line_at(1);
  line.attention = {{.values = {{"entropy", {1.5, 2}},
                                {"alpha", {3, 4}},
                                {"beyond_resolution", {0, 1}, "share"}}},
                    {.values = {{"tau", {5}}}}};
  log.write(line);
  const Json layers = Json::parse(lines_of(read_text(folder / "metrics.jsonl")).at(0))["attention"];
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0]["entropy"], Json({1.5, 2}));
  EXPECT_EQ(layers[0]["alpha"], Json({3, 4}));
  EXPECT_EQ(layers[0]["beyond_resolution"], Json({0, 1}));
  EXPECT_FALSE(layers[0].contains("tau"));
  EXPECT_EQ(layers[1], Json({{"tau", {5}}}));
}

// Lines, events and the reader know no names in advance.
TEST(MetricsLog, TellsAnyNumberThatALayerNames) {
  const TemporaryFolder folder;
  MetricsLine line = line_at(4);
  line.split = "test";
  line.summaries = {{"mean_own", 0.5}, {"loss", 7}};
  line.attention = {{.values = {{"own", {1, 2}}}}, {}, {.values = {{"own", {3, 6, 9}}}}};
  MetricsLog(folder / "metrics.jsonl", 0, 0).write(line);
  const Json object = Json::parse(lines_of(read_text(folder / "metrics.jsonl")).at(0));
  EXPECT_EQ(object["mean_own"], 0.5);
  EXPECT_EQ(object["loss"], 0.5) << "a score is never another number";
  const std::vector<std::pair<std::string, double>> scalars = scalars_of(line);
  EXPECT_THAT(scalars,
              ::testing::IsSupersetOf({std::pair<std::string, double>("test/mean_own", 0.5),
                                       {"test/layer_1/own/head_2", 2},
                                       {"test/layer_3/own/head_3", 9}}));
  const std::vector<MetricsPoint> points = read_metrics(folder / "metrics.jsonl");
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].attention, (NamedNumbers{{"own", (1.5 + 6) / 2}}));
}

TEST(MetricsLog, WritesWhatALossOnTextSays) {
  const TemporaryFolder folder;
  MetricsLog log(folder / "metrics.jsonl", 0, 0);
  MetricsLine line = line_at(1);
  line.language = LanguageScore{.perplexity = 1.5, .bits_per_byte = 0.25};
  log.write(line);
  line.language->bits_per_byte.reset();
  log.write(line);
  const std::vector<std::string> lines = lines_of(read_text(folder / "metrics.jsonl"));
  EXPECT_EQ(Json::parse(lines.at(0)).at("perplexity"), 1.5);
  EXPECT_EQ(Json::parse(lines.at(0)).at("bits_per_byte"), 0.25);
  EXPECT_FALSE(Json::parse(lines.at(1)).contains("bits_per_byte"));
}

TEST(MetricsLog, WritesNullForWhatIsNotFinite) {
  const TemporaryFolder folder;
  MetricsLog log(folder / "metrics.jsonl", 0, 0);
  MetricsLine line = line_at(1);
  line.loss = std::numeric_limits<double>::quiet_NaN();
  log.write(line);
  EXPECT_TRUE(Json::parse(read_text(folder / "metrics.jsonl"))["loss"].is_null());
}

TEST(MetricsLog, GoesOnWithEachStepOnce) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  {
    MetricsLog log(path, 0, 0);
    for (const std::int64_t step : {1, 2, 3, 4}) log.write(line_at(step));
  }
  write_text(path, read_text(path) + R"({"step":5,"spl)");  // killed while writing
  {
    MetricsLog log(path, 2, 0);
    EXPECT_THAT(steps_in(path), ElementsAre(1, 2));
    log.write(line_at(3));
  }
  EXPECT_THAT(steps_in(path), ElementsAre(1, 2, 3));
}

// A test pass that is repeated writes its line anew.
TEST(MetricsLog, DropsTestLinesThatTheCheckpointDoesNotKnow) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  {
    MetricsLog log(path, 0, 0);
    for (const std::int64_t step : {1, 2}) {
      for (const char* split : {"train", "test"}) {
        MetricsLine line = line_at(step);
        line.split = split;
        log.write(line);
      }
    }
  }
  const MetricsLog log(path, 2, 1);
  EXPECT_THAT(steps_in(path), ElementsAre(1, 1, 2));
  EXPECT_EQ(Json::parse(lines_of(read_text(path)).back()).at("split"), "train");
}

TEST(MetricsLog, StartsEmptyWithoutACheckpoint) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  write_text(path, "{\"step\":1}\n");
  const MetricsLog log(path, 0, 0);
  EXPECT_EQ(read_text(path), "");
}

TEST(Summary, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  RunSummary summary;
  summary.status = RunStatus::early_stop;
  summary.step = 40;
  summary.test = Score{.loss_sum = 1.25, .n_labels = 10, .n_correct = 9, .n_scored = 10};
  summary.groups = {{"a", {.n_scored = 4}}, {"b", {.n_scored = 6}}};
  summary.language = LanguageScore{.perplexity = 1.13, .bits_per_byte = 0.18};
  summary.best_step = 30;
  summary.best_value = 0.1;
  summary.steps_to_99 = 20;
  summary.parameters = 1234;
  summary.step_ms = 1.5;
  summary.threads = 2;
  summary.ranks = 4;
  write_summary(folder / "summary.json", summary);
  const RunSummary read = read_summary(folder / "summary.json").value();
  EXPECT_TRUE(read.is_complete());
  EXPECT_EQ(read.status, RunStatus::early_stop);
  EXPECT_EQ(read.language->perplexity, 1.13);
  EXPECT_EQ(read.language->bits_per_byte, 0.18);
  EXPECT_EQ(read.step, 40);
  EXPECT_EQ(read.test.value().loss(), 0.125);
  EXPECT_EQ(read.groups.at(1).second.n_scored, 6);
  EXPECT_EQ(read.best_step, 30);
  EXPECT_EQ(read.best_value, 0.1);
  EXPECT_EQ(read.steps_to_99, 20);
  EXPECT_EQ(read.threads, 2);
  EXPECT_EQ(read.ranks, 4);
  EXPECT_FALSE(read.loss_floor.has_value());
  EXPECT_EQ(read.parameters, 1234);
  EXPECT_EQ(read.step_ms, 1.5);
}

// As earlier versions wrote it: JSON has no number that is not finite.
TEST(Summary, NullNeverReadsAsANumber) {
  const TemporaryFolder folder;
  const auto path = folder / "summary.json";
  RunSummary summary;
  summary.test = Score{.loss_sum = 12, .n_labels = 10, .n_correct = 9, .n_scored = 10};
  summary.groups = {{"a", {.n_scored = 4}}, {"b", {.n_scored = 6}}};
  summary.best_value = std::numeric_limits<double>::quiet_NaN();
  write_summary(path, summary);
  ASSERT_THAT(read_text(path), HasSubstr("\"best_value\": null"));
  RunSummary read = read_summary(path).value();
  EXPECT_FALSE(read.best_value.has_value());
  EXPECT_TRUE(read.is_complete());  // its test score is a result

  for (const double loss : {std::numeric_limits<double>::quiet_NaN(), HUGE_VAL}) {
    summary.test->loss_sum = loss;
    summary.groups[1].second.loss_sum = loss;
    write_summary(path, summary);
    read = read_summary(path).value();
    EXPECT_FALSE(read.test.value().is_finite());
    EXPECT_FALSE(read.groups[1].second.is_finite());
    EXPECT_TRUE(read.groups[0].second.is_finite());
    EXPECT_EQ(read.status, RunStatus::diverged);  // though it says finished
    EXPECT_FALSE(read.is_complete());
  }
}

TEST(Summary, OfAnInterruptedRunIsNotComplete) {
  RunSummary summary;
  summary.status = RunStatus::interrupted;
  EXPECT_FALSE(summary.is_complete());
}

TEST(Summary, IsNothingWhereThereIsNone) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_summary(folder / "summary.json").has_value());
  write_text(folder / "summary.json", "{\"status\": \"fini");
  EXPECT_FALSE(read_summary(folder / "summary.json").has_value());
}

// A file that others wrote, or damaged.
TEST(MetricsLog, PassesOverLinesThatAreNone) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  const std::string good = "{\"step\":1,\"split\":\"train\"}\n";
  write_text(path,
             "{\"step\":1,\"split\":2}\n{\"step\":1,\"split\":[]}\n{\"step\":1}\n"
             "{\"step\":-1,\"split\":\"test\"}\n{\"step\":1.5,\"split\":\"test\"}\n"
             "{\"step\":18446744073709551615,\"split\":\"test\"}\n[1]\n\xff\n\n" +
                 std::string(100'000, '[') + "\n" + good);
  MetricsLog(path, 3, 3);
  EXPECT_EQ(read_text(path), good);
}

TEST(Summary, IsNothingWhereItIsNotOurs) {
  const TemporaryFolder folder;
  const auto path = folder / "summary.json";
  RunSummary summary;
  summary.test = Score{.loss_sum = 1.25, .n_labels = 10, .n_correct = 9, .n_scored = 10};
  summary.groups = {{"a", {.n_scored = 4}}, {"b", {.n_scored = 6}}};
  write_summary(path, summary);
  ASSERT_TRUE(read_summary(path).has_value());
  const Json good = Json::parse(read_text(path));
  const std::pair<const char*, const char*> changes[] = {
      {"/status", "\"done\""},     {"/status", "7"},          {"/step", "-1"},
      {"/step", "1e300"},          {"/step", "null"},         {"/test", "[]"},
      {"/test/n_labels", "-1"},    {"/test/n_scored", "1.5"}, {"/test/loss_sum", "\"a\""},
      {"/groups", "[1]"},          {"/groups/a", "1"},        {"/groups/a/n_scored", "1e99"},
      {"/parameters", "\"many\""}, {"/peak_bytes", "-1"},     {"/step_ms", "{}"},
      {"/threads", "[]"},          {"/best_step", "-5"}};
  for (const auto& [place, value] : changes) {
    Json object = good;
    object[Json::json_pointer(place)] = Json::parse(value);
    write_text(path, object.dump());
    EXPECT_FALSE(read_summary(path).has_value()) << place << " " << value;
  }
  for (const char* text : {"[]", "1", "null", "\xff", ""}) {
    write_text(path, text);
    EXPECT_FALSE(read_summary(path).has_value()) << text;
  }
}

}  // namespace
}  // namespace mobius::metrics_test
