// Machines without a device, faults that the program survives, a device that is lost, and counters.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/gpuless/cudart/gpuless.h"
#include "tests/gpuless/cudart/kernels.h"
#include "tests/gpuless/cudart/testing.h"
#include "tests/temporary_folder.h"

namespace mobius::gpuless_test {
namespace {
namespace failures {

using ::testing::ExitedWithCode;

class GpulessFailures : public ProcessTest {};

TEST_F(GpulessFailures, NoDriver) {
  const Environment environment("MOBIUS_GPULESS_FAIL", "no-driver");
  const auto body = [] {
    int count = 1;
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
    EXPECT_EQ(count, 0);
    void* x = nullptr;
    EXPECT_EQ(cudaMalloc(&x, 4), cudaErrorInsufficientDriver);
    int version = 1;
    EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
    EXPECT_EQ(version, 0);
    exit_with_result();
  };
  EXPECT_EXIT(body(), ExitedWithCode(0), "");
}

TEST_F(GpulessFailures, NoDevice) {
  const Environment environment("MOBIUS_GPULESS_FAIL", "no-device");
  const auto body = [] {
    int count = 1;
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    EXPECT_EQ(cudaSetDevice(0), cudaErrorNoDevice);
    exit_with_result();
  };
  EXPECT_EXIT(body(), ExitedWithCode(0), "");
}

TEST_F(GpulessFailures, NonsenseInTheEnvironment) {
  const Environment environment("MOBIUS_GPULESS_DEVICES", "two");
  EXPECT_DEATH(cudaFree(nullptr), "gpuless: MOBIUS_GPULESS_DEVICES: expected a whole number");
}

TEST_F(GpulessFailures, SeveralDevices) {
  const Environment environment("MOBIUS_GPULESS_DEVICES", "3");
  const auto body = [] {
    int count = 0, device = 0;
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(cudaSetDevice(3), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaSetDevice(2), cudaSuccess);
    cudaGetDevice(&device);
    EXPECT_EQ(device, 2);
    cudaDeviceProp properties{};
    EXPECT_EQ(cudaGetDeviceProperties(&properties, 2), cudaSuccess);
    EXPECT_EQ(properties.major, 8);
    // A copy of device variables for each device.
    const DeviceArray<float> y(4);
    const float nine = 9;
    cudaMemcpyToSymbol(table(), &nine, sizeof(nine), 0, cudaMemcpyHostToDevice);
    look_up(y.data(), 4, nullptr);
    EXPECT_EQ(y.values()[0], 9);
    cudaSetDevice(0);
    const DeviceArray<float> z(4);
    look_up(z.data(), 4, nullptr);
    EXPECT_EQ(z.values()[0], 1);
    exit_with_result();
  };
  EXPECT_EXIT(body(), ExitedWithCode(0), "");
}

TEST_F(GpulessFailures, AFaultStays) {
  const Environment environment("MOBIUS_GPULESS_ABORT", "0");
  const auto body = [] {
    const DeviceArray<float> x(4);
    fill(x.data(), 5, 1, nullptr);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);  // it has not run yet
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
    void* y = nullptr;
    EXPECT_EQ(cudaMalloc(&y, 4), cudaErrorIllegalAddress);
    exit_with_result();
  };
  EXPECT_EXIT(body(), ExitedWithCode(0), "gpuless: kernel .*fill_kernel.* on the default stream: ");
}

TEST_F(GpulessFailures, ADeviceIsLost) {
  const Environment environment("MOBIUS_GPULESS_LOSE_AFTER", "2");
  const auto body = [] {
    const DeviceArray<float> x(4);
    for (int i = 0; i < 2; ++i) fill(x.data(), 4, 1, nullptr);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    fill(x.data(), 4, 1, nullptr);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
    exit_with_result();
  };
  EXPECT_EXIT(body(), ExitedWithCode(0), "the device is lost, as MOBIUS_GPULESS_LOSE_AFTER asks");
}

TEST_F(GpulessFailures, AFileReportsWhatAProgramDid) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "report.json";
  {
    const Environment environment("MOBIUS_GPULESS_REPORT", file.string());
    const auto body = [] {
      const DeviceArray<float> x(4);
      fill(x.data(), 4, 1, nullptr);
      fill(x.data(), 4, 1, nullptr);
      x.values();
      exit_with_result();
    };
    EXPECT_EXIT(body(), ExitedWithCode(0), "");
  }
  std::ifstream in(file);
  const auto report = nlohmann::json::parse(in);
  EXPECT_EQ(report.at("launches"), 2);
  EXPECT_EQ(report.at("bytes_to_host"), 16);
  ASSERT_EQ(report.at("kernels").size(), 1u);
  const auto kernel = report.at("kernels").items().begin();
  EXPECT_THAT(kernel.key(), ::testing::HasSubstr("fill_kernel"));
  EXPECT_EQ(kernel.value().at("launches"), 2);
  EXPECT_EQ(kernel.value().at("global_writes").at("bytes"), 32);
}

TEST(GpulessCounters, CountWhatIsDone) {
  const TestStream stream;
  cudaStreamSynchronize(stream);
  gpuless_reset_counters();
  const auto start = gpuless_counters();
  {
    const DeviceArray<float> x(std::vector<float>(8, 1)), y(8);
    cudaMemcpyAsync(y.data(), x.data(), x.bytes(), cudaMemcpyDeviceToDevice, stream);
    axpy(y.data(), x.data(), 8, 1, stream);
    cudaStreamSynchronize(stream);
    cudaStreamSynchronize(stream);  // nothing to wait for
    y.values();
  }
  const auto counters = gpuless_counters();
  EXPECT_EQ(counters.launches, 1u);
  EXPECT_EQ(counters.bytes_to_device, 32u);
  EXPECT_EQ(counters.bytes_on_device, 32u);
  EXPECT_EQ(counters.bytes_to_host, 32u);
  EXPECT_EQ(counters.copies, 3u);
  EXPECT_EQ(counters.host_waits, 3u);  // two copies and one stream
  EXPECT_EQ(counters.allocations, 2u);
  EXPECT_EQ(counters.frees, 2u);
  EXPECT_EQ(counters.bytes_in_use, start.bytes_in_use);
  EXPECT_EQ(counters.peak_bytes, start.bytes_in_use + 64);

  GpulessKernel kernel{};
  ASSERT_EQ(gpuless_kernels(&kernel, 1), 1u);
  EXPECT_THAT(kernel.name, ::testing::HasSubstr("axpy_kernel"));
  EXPECT_EQ(kernel.launches, 1u);
  EXPECT_EQ(kernel.counters.blocks, 1u);
  EXPECT_EQ(kernel.counters.global_reads.bytes, 64u);
  EXPECT_EQ(kernel.counters.global_writes.bytes, 32u);
}

TEST(GpulessCounters, AreFoundByName) {
  auto* counters = gpuless_find<GpulessCounters()>("gpuless_counters");
  ASSERT_NE(counters, nullptr);
  EXPECT_EQ(counters().bytes_in_use, gpuless_counters().bytes_in_use);
}

}  // namespace failures
}  // namespace
}  // namespace mobius::gpuless_test
