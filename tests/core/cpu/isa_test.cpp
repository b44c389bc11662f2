#include "core/cpu/simd/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "core/backend.h"
#include "core/error.h"

namespace mobius::isa_test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class IsaEnvironment : public ::testing::Test {
 protected:
  IsaEnvironment() {
    if (const char* value = std::getenv("MOBIUS_ISA")) before_ = value;
  }
  ~IsaEnvironment() override {
    if (before_)
      setenv("MOBIUS_ISA", before_->c_str(), 1);
    else
      unsetenv("MOBIUS_ISA");
  }

  std::optional<std::string> before_;
};

TEST_F(IsaEnvironment, IsHonoured) {
  backend_for({});
  hwy::SupportedTargets();  // Highway forgets a choice made by hwy::DisableTargets here
  if (before_ == "avx2")
    EXPECT_EQ(isa_name(), "AVX2");
  else if (before_ == "avx512")
    EXPECT_EQ(isa_name(), "AVX3");
  else
    EXPECT_THAT(isa_name(), AnyOf("AVX2", "AVX3"));
}

TEST_F(IsaEnvironment, TheSetHasANameForFiles) {
  backend_for({});
  const std::string name = instruction_set();
  if (isa_name() == "AVX2")
    EXPECT_EQ(name, "avx2");
  else
    EXPECT_THAT(name, AnyOf("avx512", "avx512_bf16", "avx512_amx"));
  EXPECT_EQ(isa_has_amx() || name.ends_with("_bf16"), isa_has_bf16_products());
  EXPECT_EQ(isa_has_amx(), name.ends_with("_amx"));
}

TEST_F(IsaEnvironment, UnknownValueIsAnError) {
  setenv("MOBIUS_ISA", "sse9", 1);
  try {
    choose_isa();
    FAIL() << "sse9 was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("expected avx2 or avx512, got 'sse9'"));
  }
}

TEST_F(IsaEnvironment, EmptyIsAsGoodAsUnset) {
  backend_for({});
  const std::string before = isa_name();
  setenv("MOBIUS_ISA", "", 1);
  choose_isa();
  EXPECT_EQ(isa_name(), before);
}

}  // namespace
}  // namespace mobius::isa_test
