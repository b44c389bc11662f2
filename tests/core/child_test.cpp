#include "core/child.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace mobius {
namespace {

TEST(InChild, GivesWhatIsMade) {
  const pid_t parent = ::getpid();
  EXPECT_EQ(in_child([&] { return std::string(::getpid() == parent ? "here" : "there"); }),
            "there");
  EXPECT_EQ(in_child([] { return std::string(); }), "");
  const std::string bytes = std::string(1 << 20, '\0') + ".";  // more than a pipe holds
  EXPECT_EQ(in_child([&] { return bytes; }), bytes);
}

// However it ends: only the child does, and what was to be written at the end is written once.
TEST(InChild, GivesNothingWhereTheChildDies) {
  const auto nothing = [](void (*end)()) {
    return in_child([end] {
      end();
      return std::string("unreachable");
    });
  };
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  std::printf("once");
  EXPECT_EQ(nothing([] {
              std::fputs("unheard", stderr);
              std::exit(-1);
            }),
            std::nullopt);
  EXPECT_EQ(nothing([] { std::abort(); }), std::nullopt);
  EXPECT_EQ(nothing([] { ::_exit(0); }), std::nullopt);
  EXPECT_EQ(nothing([] { throw std::runtime_error("unheard"); }), std::nullopt);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "once");
}

}  // namespace
}  // namespace mobius
