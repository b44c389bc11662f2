#include "core/path.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace mobius::path_test {
namespace {

TEST(ExpandHome, PutsTheHomeFolderInPlaceOfATilde) {
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  ::setenv("HOME", "/home/of [me]", 1);
  EXPECT_EQ(expand_home("~"), "/home/of [me]");
  EXPECT_EQ(expand_home("~/a/~b"), "/home/of [me]/a/~b");
  for (const char* path : {"", "a/~", "./~", "/~/a", "~no such user/a"})
    EXPECT_EQ(expand_home(path), path);
  ::unsetenv("HOME");
  const passwd* user = ::getpwuid(::getuid());
  ASSERT_NE(user, nullptr);
  const std::string own = user->pw_dir, name = user->pw_name;
  EXPECT_EQ(expand_home("~/x"), own + "/x");
  EXPECT_EQ(expand_home("~" + name + "/x"), own + "/x");
  ::setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace mobius::path_test
