#include "train/io/stop_signal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>

namespace mobius::stop_signal_test {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

constexpr int kAsExpected = 7;

// Ends the program with a code that says whether the condition came true.
[[noreturn]] void exit_when(const std::function<bool()>& condition) {
  for (int i = 0; i < 10000 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::_Exit(condition() ? kAsExpected : 1);
}

// Each body runs as its own program, whose only thread makes the StopSignal.
class StopSignalTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(StopSignalTest, LeavesSignalsTheirUsualEffectUntilItListens) {
  EXPECT_EXIT(
      {
        const StopSignal stop;
        ::kill(::getpid(), SIGTERM);
        exit_when([] { return false; });
      },
      KilledBySignal(SIGTERM), "");
}

TEST_F(StopSignalTest, IsAskedOnceItListens) {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    EXPECT_EXIT(
        {
          std::signal(SIGHUP, SIG_DFL);
          StopSignal stop;
          stop.listen();
          ::kill(::getpid(), signal);
          exit_when([&] { return stop.is_requested(); });
        },
        ExitedWithCode(kAsExpected), "");
  }
}

TEST_F(StopSignalTest, LeavesSignalsAsTheyWereBefore) {
  EXPECT_EXIT(
      {
        std::signal(SIGINT, SIG_DFL);
        {
          StopSignal stop;
          stop.listen();
        }
        ::kill(::getpid(), SIGINT);
        exit_when([] { return true; });
      },
      KilledBySignal(SIGINT), "");
}

// Profilers install such a handler.
std::atomic<pid_t> handling_thread = 0;
extern "C" void note_thread(int) { handling_thread = ::gettid(); }

TEST_F(StopSignalTest, HandlersOfOthersRunOnAnotherThread) {
  EXPECT_EXIT(
      {
        std::signal(SIGPROF, note_thread);
        const StopSignal stop;
        ::kill(::getpid(), SIGPROF);
        exit_when([] { return handling_thread != 0 && handling_thread != ::gettid(); });
      },
      ExitedWithCode(kAsExpected), "");
}

TEST_F(StopSignalTest, LetsAWriteToAClosedPipeFail) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  {
    const StopSignal stop;
    EXPECT_EQ(::write(ends[1], "x", 1), -1);
    EXPECT_EQ(errno, EPIPE);
  }  // nothing is left that would come now
  ::close(ends[1]);
}

}  // namespace
}  // namespace mobius::stop_signal_test
