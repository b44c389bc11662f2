#include "core/isolated.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "tests/error_of.h"

namespace mobius::isolated_test {
namespace {

using namespace std::chrono_literals;

TEST(Isolated, ReturnsWhatTheFunctionReturns) {
  EXPECT_EQ(run_isolated([] { return std::string(); }).answer, "");
  const std::string large(3 << 20, 'x');
  EXPECT_EQ(run_isolated([&] { return large; }).answer, large);
  const std::string bytes("\0\n\xff", 3);
  EXPECT_EQ(run_isolated([&] { return bytes; }).answer, bytes);
}

TEST(Isolated, NeedsNoLimits) {
  EXPECT_EQ(run_isolated([] { return std::string("free"); }, no_limits).answer, "free");
}

TEST(Isolated, ThrowsTheErrorThatTheFunctionThrows) {
  EXPECT_EQ(
      error_of([] { run_isolated([]() -> std::string { throw Error("{} is wrong", "this"); }); }),
      "this is wrong");
}

TEST(Isolated, SurvivesEveryWayToDie) {
  const auto signal_of = [](const std::function<void()>& fn) {
    const IsolatedResult result = run_isolated([&] {
      fn();
      return std::string("alive");
    });
    EXPECT_FALSE(result.answer.has_value());
    return result.signal;
  };
  EXPECT_EQ(signal_of([] { std::raise(SIGSEGV); }), SIGSEGV);
  EXPECT_EQ(signal_of([] { std::abort(); }), SIGABRT);
  EXPECT_EQ(signal_of([] { ::_exit(0); }), 0);
  EXPECT_EQ(signal_of([] { throw std::bad_alloc(); }), 0);
  EXPECT_EQ(signal_of([] { std::exit(-1); }), 0);
}

TEST(Isolated, EndsWhatGoesBeyondItsLimits) {
  const auto answer_of = [](IsolationLimits limits, const std::function<std::string()>& fn) {
    return run_isolated(fn, limits).answer;
  };
  EXPECT_FALSE(answer_of({.processor = 1s}, [] {
    while (::getpid() > 0) {
    }
    return std::string();
  }));
  EXPECT_FALSE(answer_of({.wall = 1s}, [] {
    ::pause();
    return std::string();
  }));
  EXPECT_FALSE(answer_of({.memory = 64 << 20},
                         [] { return std::string(std::vector<char>(256 << 20, 'x').data(), 1); }));
  EXPECT_FALSE(answer_of({.answer = 1000}, [] { return std::string(100'000, 'x'); }));
}

// Buffers are copies in the child, and its own streams lead nowhere.
TEST(Isolated, KeepsItsOutputToItself) {
  ::testing::internal::CaptureStdout();
  std::printf("once, ");
  EXPECT_TRUE(run_isolated([] {
                std::printf("never, ");
                std::fflush(stdout);
                return std::string();
              }).answer);
  std::printf("twice");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "once, twice");
}

// What the caller has is not changed, as a child that shared its memory would.
TEST(Isolated, SharesNoMemory) {
  int value = 1;
  run_isolated([&] {
    value = 2;
    return std::string();
  });
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace mobius::isolated_test
