// Registration, launches and questions about kernels.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <numeric>

#include "tests/gpuless/cudart/kernels.h"
#include "tests/gpuless/cudart/testing.h"

namespace mobius::gpuless_test {
namespace {
namespace launches {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(GpulessLaunch, RunsKernelsOnDeviceMemory) {
  const int n = 1000;  // no multiple of a block
  const DeviceArray<float> x(std::vector<float>(n, 2)), y(n);
  fill(y.data(), n, 1, nullptr);
  axpy(y.data(), x.data(), n, 3, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_THAT(y.values(), Each(7));
}

TEST(GpulessLaunch, TakesTemplatesAndExtendedLaunches) {
  std::vector<double> values(300);
  std::iota(values.begin(), values.end(), 0.1);
  const DeviceArray<double> x(values), y(300);
  copy_doubles(y.data(), x.data(), 300, nullptr);
  EXPECT_EQ(y.values(), values);
}

TEST(GpulessLaunch, GivesDynamicSharedMemory) {
  std::vector<float> values(256);
  std::iota(values.begin(), values.end(), 0);
  const DeviceArray<float> x(values), y(1);
  sum(y.data(), x.data(), 256, 0, nullptr);
  EXPECT_THAT(y.values(), ElementsAre(255 * 128));
}

TEST(GpulessLaunch, NeedsLeaveForMuchSharedMemory) {
  const DeviceArray<float> x(std::vector<float>(32, 1)), y(1);
  const int much = 100 << 10;
  sum(y.data(), x.data(), 32, much, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);  // it was told once

  int most = 0;
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
  EXPECT_EQ(
      cudaFuncSetAttribute(sum_kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1),
      cudaErrorInvalidValue);
  cudaGetLastError();
  EXPECT_EQ(cudaFuncSetAttribute(sum_kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, most),
            cudaSuccess);
  sum(y.data(), x.data(), 32, much, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_THAT(y.values(), ElementsAre(32));
}

TEST(GpulessLaunch, KeepsConstantMemory) {
  const DeviceArray<float> y(6);
  look_up(y.data(), 6, nullptr);
  EXPECT_THAT(y.values(), ElementsAre(1, 2, 3, 4, 1, 2));

  const float replaced[2] = {8, 9};
  EXPECT_EQ(cudaMemcpyToSymbol(table(), replaced, sizeof(replaced), sizeof(float),
                               cudaMemcpyHostToDevice),
            cudaSuccess);
  look_up(y.data(), 6, nullptr);
  EXPECT_THAT(y.values(), ElementsAre(1, 8, 9, 4, 1, 8));
  std::size_t bytes = 0;
  EXPECT_EQ(cudaGetSymbolSize(&bytes, table()), cudaSuccess);
  EXPECT_EQ(bytes, 4 * sizeof(float));
}

TEST(GpulessLaunch, RefusesImpossibleBlocks) {
  EXPECT_EQ(launch_bounded(64), cudaSuccess);
  EXPECT_EQ(launch_bounded(65), cudaErrorLaunchOutOfResources);
  EXPECT_EQ(launch_bounded(1025), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch_bounded(0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(GpulessLaunch, TellsWhatAKernelTakes) {
  cudaFuncAttributes attributes{};
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, sum_kernel()), cudaSuccess);
  EXPECT_EQ(attributes.sharedSizeBytes, 0u);
  EXPECT_EQ(attributes.maxThreadsPerBlock, 1024);

  int blocks = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sum_kernel(), 256, 0);
  EXPECT_EQ(blocks, 2048 / 256);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sum_kernel(), 64, 40 << 10);
  EXPECT_EQ(blocks, 164 / 41);  // a block takes 1 KiB besides its own
}

}  // namespace launches
}  // namespace
}  // namespace mobius::gpuless_test
