#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/process.h"

namespace mobius::watch_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(WatchCommand, DrawsUntilTheRunEnds) {
  const TemporaryFolder folder;
  write_text(folder / "tiny.yaml", kTinyRun);
  const std::string run = folder / "run";
  Process training(mobius_command(
      {"train", folder / "tiny.yaml", "train.max_steps=1000000", "eval.every=50", "--out", run}));
  ASSERT_TRUE(wait_until([&] { return lines_of(read_text(run + "/metrics.jsonl")).size() > 60; }));
  const Outcome once = mobius({"watch", run, "--once"});
  EXPECT_EQ(once.exit_code, 0) << once.err;
  EXPECT_THAT(once.out, AllOf(HasSubstr("test loss\n"), HasSubstr("test accuracy\n"),
                              HasSubstr("  a run  loss ")));

  Process watching(mobius_command({"watch", run}));
  training.kill(SIGTERM);
  EXPECT_EQ(training.wait().exit_code, 4);
  const Outcome watched = watching.wait();
  EXPECT_EQ(watched.exit_code, 0) << watched.err;
  EXPECT_THAT(watched.out, HasSubstr("  a run  loss "));
}

TEST(WatchCommand, RedrawsOnATerminal) {
  const TemporaryFolder folder;
  write_text(folder / "tiny.yaml", kTinyRun);
  ASSERT_EQ(mobius({"train", folder / "tiny.yaml", "--out", folder / "run"}).exit_code, 0);
  EXPECT_THAT(mobius_on_terminal({"watch", folder / "run"}),
              AllOf(HasSubstr("\x1b[H\x1b[2J"), HasSubstr("test loss")));
}

TEST(WatchCommand, SaysThatItWaitsForARun) {
  const TemporaryFolder folder;
  Process watching(mobius_command({"watch", folder / ""}));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  watching.kill(SIGTERM);
  const Outcome outcome = watching.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("no run yet; waiting for one"));
}

TEST(WatchCommand, RefusesWhatIsNoFolder) {
  const Outcome outcome = mobius({"watch", "/nowhere"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("/nowhere: is not a folder"));
}

}  // namespace
}  // namespace mobius::watch_test
