// Which GPUs run the code of a build.
#include "core/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mobius::gpus_test {
namespace {

TEST(RunsCode, OfItsGenerationAndNotOfALaterOne) {
  EXPECT_TRUE(runs_code("sm_80", 8, 0));
  EXPECT_TRUE(runs_code("sm_80", 8, 9));
  EXPECT_FALSE(runs_code("sm_86", 8, 0));
  EXPECT_FALSE(runs_code("sm_80", 7, 5));
  EXPECT_FALSE(runs_code("sm_80", 9, 0));
  EXPECT_TRUE(runs_code("sm_100", 10, 3));
  EXPECT_FALSE(runs_code("sm_100", 12, 0));
}

TEST(RunsCode, ThatTheDriverCompilesOnAllLaterOnes) {
  EXPECT_TRUE(runs_code("compute_80", 8, 0));
  EXPECT_TRUE(runs_code("compute_80", 12, 0));
  EXPECT_FALSE(runs_code("compute_80", 7, 5));
}

TEST(RunsCode, OfAnyEntryOfAList) {
  EXPECT_TRUE(runs_code("sm_80,sm_90", 9, 0));
  EXPECT_FALSE(runs_code("sm_80,sm_90", 10, 0));
  EXPECT_TRUE(runs_code("sm_80,sm_90,compute_80", 10, 0));
  EXPECT_TRUE(runs_code("sm_90a", 9, 0));
  EXPECT_FALSE(runs_code("", 9, 0));
  EXPECT_FALSE(runs_code("all", 9, 0));
}

TEST(FindGpus, FindsOnesToComputeOnOrSaysWhyNot) {
  const GpuReport report = find_gpus();
  EXPECT_EQ(report.usable().empty(), !report.problem.empty()) << report.problem;
  EXPECT_EQ(report.code.empty(), report.runtime.empty());
  for (const Gpu& gpu : report.gpus) {
    EXPECT_NE(gpu.name, "");
    EXPECT_GT(gpu.memory, 0u);
    EXPECT_EQ(gpu.has_code, runs_code(report.code, gpu.major, gpu.minor));
  }
}

}  // namespace
}  // namespace mobius::gpus_test
