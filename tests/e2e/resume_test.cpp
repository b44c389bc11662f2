// A run that is stopped, killed or interrupted, and goes on, is the run that was not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/e2e/run_comparison.h"

namespace mobius {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Dropout and accumulation are on; the schedule has a warm-up.
constexpr const char* kRun = R"(
task: {name: mqar, vocab: 64, seq_len: 16, n_pairs: 4, n_test: 32}
model: {d_model: 16, n_layers: 2, n_heads: 2, dropout: 0.1}
attention: {kind: conformal}
schedule: {kind: constant, warmup_steps: 10}
train: {max_steps: 200, batch_size: 8, accumulation_steps: 2, threads: 1, log_every: 1}
eval: {every: 20}
checkpoint: {every: 25}
)";

class ResumeTest : public testing::Test {
 protected:
  void SetUp() override { write_text(config_, kRun); }

  std::vector<std::string> train_arguments(const std::string& run,
                                           const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"train", config_, "--out", folder_ / run};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  void train(const std::string& run, const std::vector<std::string>& more = {}) {
    const Outcome outcome = mobius(train_arguments(run, more));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  }
  std::size_t lines_in(const std::string& run) {
    return lines_of(read_text(folder_ / run / "metrics.jsonl")).size();
  }

  TemporaryFolder folder_;
  const std::string config_ = folder_ / "run.yaml";
};

TEST_F(ResumeTest, TwoHundredStepsAreAHundredAndAHundred) {
  train("straight");
  train("halves", {"train.max_steps=100"});
  train("halves", {"--resume", "auto"});
  expect_same_run(folder_ / "straight", folder_ / "halves", 200);
}

TEST_F(ResumeTest, FortyStepsAreTwentyAndTwenty) {
  train("straight", {"train.max_steps=40"});
  train("halves", {"train.max_steps=20"});
  train("halves", {"train.max_steps=40", "--resume",
                   (folder_ / "halves" / "checkpoints" / "step-00000020.h5").string()});
  expect_same_run(folder_ / "straight", folder_ / "halves", 40);
}

TEST_F(ResumeTest, ResumesWithAnotherThreadCount) {
  train("straight", {"train.max_steps=40"});
  train("halves", {"train.max_steps=20", "train.threads=2"});
  train("halves", {"train.max_steps=40", "--resume", "auto"});
  EXPECT_EQ(metrics_in(folder_ / "straight"), metrics_in(folder_ / "halves"));
}

TEST_F(ResumeTest, ASignalSavesAndHasItsOwnExitCode) {
  train("straight", {"schedule.kind=cosine"});
  for (const int signal : {SIGTERM, SIGINT}) {
    const std::string run = "stopped-by-" + std::to_string(signal);
    Process process(mobius_command(train_arguments(run, {"schedule.kind=cosine"})));
    ASSERT_TRUE(wait_until([&] { return lines_in(run) >= 5; }));
    process.kill(signal);
    const Outcome outcome = process.wait();
    EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("interrupted and saved"));
    EXPECT_LT(lines_in(run), 200u);
    EXPECT_THAT(read_text(folder_ / run / "summary.json"), HasSubstr("\"interrupted\""));
    train(run, {"schedule.kind=cosine", "--resume", "auto"});
    expect_same_run(folder_ / "straight", folder_ / run, 200);
  }
}

// The pass over so many test sequences would take minutes.
TEST_F(ResumeTest, ASignalNeedNotWaitForTheTestPass) {
  Process process(mobius_command(train_arguments("run", {"task.n_test=3000000", "eval.every=1"})));
  ASSERT_TRUE(wait_until([&] { return lines_in("run") == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto begin = std::chrono::steady_clock::now();
  process.kill(SIGTERM);
  EXPECT_EQ(process.wait().exit_code, 4);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_TRUE(metrics_in(folder_ / "run", "test").empty());
  EXPECT_EQ(read_checkpoint_header(step_file(folder_ / "run", 1)).step, 1);
}

TEST_F(ResumeTest, ASecondSignalEndsAtOnce) {
  Process process(
      mobius_command(train_arguments("slow", {"task.seq_len=512", "task.vocab=1024",
                                              "train.batch_size=2048", "model.d_model=64"})));
  ASSERT_TRUE(wait_until([&] { return process.out().find("parameters") != std::string::npos; }));
  process.kill(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  process.kill(SIGINT);
  EXPECT_EQ(process.wait().signal, SIGINT);
}

// Whenever it comes, kill -9 leaves a folder from which the run goes on as if nothing had happened.
TEST_F(ResumeTest, KilledAtRandomMomentsEndsWithTheSameBits) {
  const std::vector<std::string> settings = {"checkpoint.every=3", "train.max_steps=150"};
  train("straight", settings);
  std::mt19937 random(20);
  int kills = 0;
  for (int round = 0; kills < 24; ++round) {
    ASSERT_LT(round, 24) << "runs end before they can be killed";
    const std::string run = "killed-" + std::to_string(round);
    auto arguments = train_arguments(run, settings);
    arguments.insert(arguments.end(), {"--resume", "auto"});
    for (bool is_done = false; !is_done;) {
      const std::size_t before = lines_in(run);
      Process process(mobius_command(arguments));
      // Three in four once it trains, one in four maybe before.
      if (random() % 4 != 0) wait_until([&] { return lines_in(run) != before; });
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 15000));
      process.kill(SIGKILL);
      const Outcome outcome = process.wait();
      ASSERT_TRUE(outcome.signal == SIGKILL || outcome.exit_code == 0) << outcome.err;
      is_done = outcome.exit_code == 0 || kills >= 24;
      kills += outcome.signal == SIGKILL;
    }
    train(run, {"checkpoint.every=3", "train.max_steps=150", "--resume", "auto"});
    expect_same_run(folder_ / "straight", folder_ / run, 150);
  }
}

TEST_F(ResumeTest, GoesOnAfterTheDiskWasFull) {
  train("straight", {"train.max_steps=40"});
  train("run", {"train.max_steps=20"});
  const Outcome outcome = mobius(train_arguments("run", {"train.max_steps=40", "--resume", "auto"}),
                                 {.environment = {}, .largest_file = 30000});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("File too large"));
  EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
  EXPECT_EQ(read_checkpoint_header(step_file(folder_ / "run", 20)).step, 20);
  train("run", {"train.max_steps=40", "--resume", "auto"});
  expect_same_run(folder_ / "straight", folder_ / "run", 40);
}

TEST_F(ResumeTest, SkipsAndReportsABrokenCheckpoint) {
  train("straight", {"train.max_steps=40"});
  train("run", {"train.max_steps=30"});
  const fs::path newest = step_file(folder_ / "run", 30);
  std::string content = read_text(newest);
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 8);
  write_text(newest, content);
  const Outcome outcome =
      mobius(train_arguments("run", {"train.max_steps=40", "--resume", "auto"}));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("resume: skipped " + newest.string() + ": damaged"));
  EXPECT_THAT(outcome.out, HasSubstr("resume: step 25 from"));
  // The last evaluation of the shorter run is not one of the longer run's.
  EXPECT_EQ(metrics_in(folder_ / "run", "train"), metrics_in(folder_ / "straight", "train"));
  EXPECT_EQ(state_in(step_file(folder_ / "run", 40)),
            state_in(step_file(folder_ / "straight", 40)));
}

}  // namespace
}  // namespace mobius
