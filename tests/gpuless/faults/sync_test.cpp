#include <cstdint>
#include <vector>

#include "tests/gpuless/faults/faults.h"

namespace mobius::ptx {
namespace sync_faults {

struct Case {
  const char* kernel;
  std::uint32_t threads;
  const char* what;
};

std::string name_of(const testing::TestParamInfo<Case>& info) { return info.param.kernel; }

// Kernels that take one array of numbers.
class SyncFault : public testing::TestWithParam<Case> {};

TEST_P(SyncFault, IsFound) {
  const auto [kernel, threads, what] = GetParam();
  KernelRunner kernels = kernels_of("sync");
  for (kernels.config.seed = 0; kernels.config.seed < kSeeds; ++kernels.config.seed) {
    const auto out = kernels.upload(counting(64));
    EXPECT_THAT(kernels.fault_of(kernel, {}, {threads, 1, 1}, out), is_fault(kernel, what));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SyncFault,
    testing::Values(
        Case{"barrier_in_both_branches", 32, "lanes of one warp wait at different barriers"},
        Case{"shuffle_after_exit", 32, "its member mask names lane 16, which has exited"},
        Case{"shuffle_in_branch", 32, "which its mask names and which never comes"},
        Case{"mask_without_self", 32, "its member mask does not name its own lane"},
        Case{"shuffle_beyond_block", 16, "reads from lane 16, which does not take part"}),
    name_of);

TEST(BarrierFault, NotAllThreadsReachIt) {
  KernelRunner kernels = kernels_of("sync");
  for (kernels.config.seed = 0; kernels.config.seed < kSeeds; ++kernels.config.seed) {
    const auto out = kernels.allocate<float>(64);
    EXPECT_THAT(kernels.fault_of("barrier_in_branch", {}, {32, 1, 1}, out, 16),
                is_fault("barrier_in_branch", "barrier"));
  }
}

// Kernels that take an input and, most of them, an output of 64 vectors.
class CopyFault : public testing::TestWithParam<Case> {};

TEST_P(CopyFault, IsFound) {
  const auto [kernel, threads, what] = GetParam();
  KernelRunner kernels = kernels_of("sync");
  const auto in = kernels.upload(counting(256));
  const auto out = kernels.allocate<float>(256);
  const bool has_output = kernels.module.kernel(kernel).parameters.size() == 2;
  for (kernels.config.seed = 0; kernels.config.seed < kSeeds; ++kernels.config.seed) {
    const std::string fault = has_output ? kernels.fault_of(kernel, {}, {threads, 1, 1}, in, out)
                                         : kernels.fault_of(kernel, {}, {threads, 1, 1}, in);
    EXPECT_THAT(fault, is_fault(kernel, what));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, CopyFault,
    testing::Values(Case{"copy_not_waited_for", 32,
                         "reads 16 bytes of shared memory that cp.async of thread 0 still fills"},
                    Case{"copy_overwritten", 32, "that cp.async of thread 0 still fills"},
                    Case{"copy_at_end", 32,
                         "exits with a cp.async in flight, which was not waited for"},
                    Case{"copy_not_committed", 32, "still fills"},
                    Case{"copy_never_committed", 32,
                         "exits with a cp.async in flight, which was never committed"},
                    Case{"wait_for_older_group", 32, "still fills"},
                    Case{"wait_without_barrier", 64, "of shared memory"},
                    Case{"copy_into_read_buffer", 64, "of shared memory that"}),
    name_of);

TEST(MatrixFault, MisalignedRow) {
  KernelRunner kernels = kernels_of("sync");
  const auto out = kernels.allocate<unsigned>(32);
  EXPECT_NO_THROW(kernels.run("matrix_misaligned", {}, {32, 1, 1}, out, 0));
  EXPECT_THAT(kernels.fault_of("matrix_misaligned", {}, {32, 1, 1}, out, 4),
              is_fault("matrix_misaligned", "misaligned access of 16 bytes"));
}

}  // namespace sync_faults
}  // namespace mobius::ptx
