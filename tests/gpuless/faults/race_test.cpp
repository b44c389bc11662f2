#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpuless/faults/faults.h"

namespace mobius::ptx {
namespace race_faults {

struct Case {
  const char* kernel;
  Dim3 grid;
  Dim3 block;
};

std::string name_of(const testing::TestParamInfo<Case>& info) { return info.param.kernel; }

// Kernels that take an input and an output of 128 numbers.
class SharedRace : public testing::TestWithParam<Case> {};

TEST_P(SharedRace, IsFoundInEveryOrder) {
  const auto [kernel, grid, block] = GetParam();
  KernelRunner kernels = kernels_of("race");
  const auto in = kernels.upload(counting(128));
  const auto out = kernels.allocate<float>(128);
  for (kernels.config.seed = 0; kernels.config.seed < kSeeds; ++kernels.config.seed) {
    EXPECT_THAT(kernels.fault_of(kernel, grid, block, in, out), is_fault(kernel, "race: "));
  }
}

INSTANTIATE_TEST_SUITE_P(All, SharedRace,
                         testing::Values(Case{"missing_barrier", {}, {128, 1, 1}},
                                         Case{"missing_second_barrier", {}, {128, 1, 1}},
                                         Case{"missing_syncwarp", {}, {32, 1, 1}},
                                         Case{"shuffle_for_syncwarp", {}, {32, 1, 1}},
                                         Case{"syncwarp_for_syncthreads", {}, {64, 1, 1}}),
                         name_of);

// Kernels that take one array of 128 zeros.
class Race : public testing::TestWithParam<Case> {};

TEST_P(Race, IsFoundInEveryOrder) {
  const auto [kernel, grid, block] = GetParam();
  KernelRunner kernels = kernels_of("race");
  for (kernels.config.seed = 0; kernels.config.seed < kSeeds; ++kernels.config.seed) {
    const auto data = kernels.upload(std::vector<int>(128));
    EXPECT_THAT(kernels.fault_of(kernel, grid, block, data), is_fault(kernel, "race: "));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Race,
                         testing::Values(Case{"two_writers", {}, {64, 1, 1}},
                                         Case{"plain_beside_atomic", {}, {64, 1, 1}},
                                         Case{"blocks_write_same", {2, 1, 1}, {32, 1, 1}},
                                         Case{"block_reads_other", {2, 1, 1}, {32, 1, 1}},
                                         Case{"halves_overlap", {2, 1, 1}, {32, 1, 1}},
                                         Case{"atomic_beside_store", {4, 1, 1}, {32, 1, 1}}),
                         name_of);

TEST(RaceFault, StencilInPlace) {
  KernelRunner kernels = kernels_of("race");
  for (kernels.config.seed = 0; kernels.config.seed < kSeeds; ++kernels.config.seed) {
    const auto data = kernels.upload(counting(128));
    EXPECT_THAT(kernels.fault_of("stencil_in_place", {4, 1, 1}, {32, 1, 1}, data, 128),
                is_fault("stencil_in_place", "race: "));
  }
}

TEST(RaceFault, LastBlockWithoutFence) {
  KernelRunner kernels = kernels_of("race");
  const auto in = kernels.upload(counting(128));
  for (kernels.config.seed = 0; kernels.config.seed < kSeeds; ++kernels.config.seed) {
    const auto partial = kernels.allocate<float>(128, "partial");
    const auto count = kernels.upload(std::vector<unsigned>{0});
    const auto out = kernels.allocate<float>(32);
    EXPECT_THAT(kernels.fault_of("missing_fence", {4, 1, 1}, {32, 1, 1}, in, partial, count, out),
                is_fault("missing_fence", "wrote in this launch: byte"));
  }
}

TEST(RaceFault, NamesTheOtherThread) {
  KernelRunner kernels = kernels_of("race");
  const auto in = kernels.upload(counting(32));
  const auto out = kernels.allocate<float>(32);
  EXPECT_THAT(kernels.fault_of("missing_syncwarp", {}, {32, 1, 1}, in, out),
              testing::HasSubstr("that thread 31 wrote since the last barrier"));
}

TEST(RaceFault, LaunchesInSequenceDoNotRace) {
  KernelRunner kernels = kernels_of("race");
  const auto data = kernels.upload(std::vector<int>(64));
  for (int i = 0; i < 3; ++i)
    EXPECT_NO_THROW(kernels.run("blocks_write_same", {}, {32, 1, 1}, data));
}

}  // namespace race_faults
}  // namespace mobius::ptx
