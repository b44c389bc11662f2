// A run that is stopped, killed or interrupted and resumed equals the uninterrupted one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/e2e/run_test.h"

namespace mobius::resume_test {
namespace {

using ::testing::HasSubstr;

class ResumeTest : public RunTest {};

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

// A pass over this many test sequences would take minutes.
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

// After kill -9 at any time, the run resumes from the folder as if nothing had happened. Each life
// does some steps, and the next one continues.
class KilledRunTest : public RunTest, public ::testing::WithParamInterface<unsigned> {};

INSTANTIATE_TEST_SUITE_P(Seed, KilledRunTest, ::testing::Values(1U, 2U),
                         [](const auto& test) { return std::to_string(test.param); });

TEST_P(KilledRunTest, EndsWithTheSameBitsAfterAHundredAndFiftyKills) {
  constexpr int enough = 150;
  const std::vector<std::string> settings = {"train.max_steps=600", "checkpoint.every=3"};
  const Outcome straight = train("straight", settings);
  std::mt19937 random(GetParam());
  int kills = 0;
  for (int round = 0; kills < enough; ++round) {
    ASSERT_LT(round, enough) << "runs end before they can be killed";
    const std::string run = "killed-" + std::to_string(round);
    auto arguments = train_arguments(run, settings);
    arguments.insert(arguments.end(), {"--resume", "auto"});
    for (bool is_done = false; !is_done;) {
      const std::size_t before = lines_in(run);
      Process process(mobius_command(arguments));
      // Three in four kills hit a run that trains; the others may come earlier.
      if (random() % 4 != 0) {
        wait_until([&] { return lines_in(run) != before || process.has_ended(); });
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 15000));
      process.kill(SIGKILL);
      const Outcome outcome = process.wait();
      ASSERT_TRUE(outcome.signal == SIGKILL || outcome.exit_code == 0) << outcome.err;
      EXPECT_LT(outcome.peak_kib, 1.1 * static_cast<double>(straight.peak_kib));
      EXPECT_THAT(newest_checkpoint(folder_ / run / "checkpoints").skipped, ::testing::IsEmpty());
      kills += outcome.signal == SIGKILL;
      is_done = outcome.exit_code == 0 || kills >= enough;
    }
    auto rest = settings;
    rest.insert(rest.end(), {"--resume", "auto"});
    train(run, rest);
    expect_same_run(folder_ / "straight", folder_ / run, 600);
  }
}

}  // namespace
}  // namespace mobius::resume_test
