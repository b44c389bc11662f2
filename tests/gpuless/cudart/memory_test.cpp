// Allocation and copies, and what a program can do wrong with them.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <cstring>

#include "tests/gpuless/cudart/gpuless.h"
#include "tests/gpuless/cudart/kernels.h"
#include "tests/gpuless/cudart/testing.h"

namespace mobius::gpuless_test {
namespace {
namespace memory {

using ::testing::Each;
using ::testing::ElementsAre;

float* pool_memory(std::size_t floats, cudaStream_t stream) {
  void* memory = nullptr;
  expect_success(cudaMallocAsync(&memory, floats * sizeof(float), stream), "cudaMallocAsync");
  return static_cast<float*>(memory);
}

TEST(GpulessMemory, ReadsPageableMemoryAtOnce) {
  const TestStream stream;
  const DeviceArray<float> x(1);
  float value = 1;
  cudaMemcpyAsync(x.data(), &value, sizeof(value), cudaMemcpyHostToDevice, stream);
  value = 2;
  stream.synchronize();
  EXPECT_THAT(x.values(), ElementsAre(1));
}

TEST(GpulessMemory, ShowsAPinnedBufferThatIsReusedTooEarly) {
  const TestStream stream;
  const DeviceArray<float> x(1);
  const PinnedArray buffer(1);
  buffer.data()[0] = 1;
  cudaMemcpyAsync(x.data(), buffer.data(), sizeof(float), cudaMemcpyHostToDevice, stream);
  buffer.data()[0] = 2;
  stream.synchronize();
  EXPECT_THAT(x.values(), ElementsAre(2));
}

TEST(GpulessMemory, ShowsAPinnedResultThatIsReadTooEarly) {
  const TestStream stream;
  const DeviceArray<float> x(std::vector<float>{1});
  const PinnedArray result(1);
  result.data()[0] = 0;
  cudaMemcpyAsync(result.data(), x.data(), sizeof(float), cudaMemcpyDeviceToHost, stream);
  EXPECT_EQ(result.data()[0], 0);
  stream.synchronize();
  EXPECT_EQ(result.data()[0], 1);
}

TEST(GpulessMemory, WaitsForCopiesToPageableMemory) {
  const TestStream stream;
  const DeviceArray<float> x(1);
  fill(x.data(), 1, 7, stream);
  float result = 0;
  cudaMemcpyAsync(&result, x.data(), sizeof(result), cudaMemcpyDeviceToHost, stream);
  EXPECT_EQ(result, 7);
}

TEST(GpulessMemory, CopiesAndFillsRows) {
  // 2 rows of 3 in rows of 4 on the device.
  const DeviceArray<float> x(8);
  cudaMemset(x.data(), 0, x.bytes());
  const float host[6] = {1, 2, 3, 4, 5, 6};
  constexpr std::size_t f = sizeof(float);
  cudaMemcpy2D(x.data(), 4 * f, host, 3 * f, 3 * f, 2, cudaMemcpyHostToDevice);
  EXPECT_THAT(x.values(), ElementsAre(1, 2, 3, 0, 4, 5, 6, 0));
  const DeviceArray<float> y(4);
  cudaMemcpy2DAsync(y.data(), 2 * f, x.data() + 1, 4 * f, 2 * f, 2, cudaMemcpyDefault, nullptr);
  EXPECT_THAT(y.values(), ElementsAre(2, 3, 5, 6));
  cudaMemset2DAsync(x.data(), 4 * f, 0, f, 2, nullptr);
  EXPECT_THAT(x.values(), ElementsAre(0, 2, 3, 0, 0, 5, 6, 0));
}

TEST(GpulessMemory, TellsWhatPointersAre) {
  const DeviceArray<float> x(1);
  const PinnedArray pinned(1);
  const float plain = 0;
  const auto type = [](const void* pointer) {
    cudaPointerAttributes attributes{};
    cudaPointerGetAttributes(&attributes, pointer);
    return attributes.type;
  };
  EXPECT_EQ(type(x.data()), cudaMemoryTypeDevice);
  EXPECT_EQ(type(pinned.data()), cudaMemoryTypeHost);
  EXPECT_EQ(type(&plain), cudaMemoryTypeUnregistered);
}

TEST(GpulessMemory, CountsWhatPoolsHold) {
  const TestStream stream;
  cudaMemPool_t pool = nullptr;
  cudaDeviceGetDefaultMemPool(&pool, 0);
  std::uint64_t keep = 1 << 20;
  cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep);
  const auto bytes = [&](cudaMemPoolAttr attribute) {
    std::uint64_t value = 0;
    expect_success(cudaMemPoolGetAttribute(pool, attribute, &value), "pool");
    return value;
  };
  float* const x = pool_memory(256, stream);
  EXPECT_EQ(bytes(cudaMemPoolAttrUsedMemCurrent), 1024u);
  cudaFreeAsync(x, stream);
  float* const y = pool_memory(256, stream);  // takes the place of x
  cudaFreeAsync(y, stream);
  stream.synchronize();
  EXPECT_EQ(bytes(cudaMemPoolAttrUsedMemCurrent), 0u);
  EXPECT_EQ(bytes(cudaMemPoolAttrUsedMemHigh), 1024u);
  EXPECT_EQ(bytes(cudaMemPoolAttrReservedMemCurrent), 1024u);
  cudaMemPoolTrimTo(pool, 0);
  EXPECT_EQ(bytes(cudaMemPoolAttrReservedMemCurrent), 0u);
}

class GpulessMemoryLimit : public ProcessTest {};

TEST_F(GpulessMemoryLimit, IsThatOfTheEnvironment) {
  const Environment limit("MOBIUS_GPULESS_MEMORY", "1000000");
  const auto body = [] {
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    EXPECT_EQ(total, 1000000u);
    EXPECT_EQ(free, 1000000u);
    void *first = nullptr, *second = nullptr;
    EXPECT_EQ(cudaMalloc(&first, 600000), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&second, 600000), cudaErrorMemoryAllocation);
    EXPECT_EQ(second, nullptr);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaFree(first), cudaSuccess);
    // What was freed on a stream serves the next allocation there.
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(cudaMallocAsync(&first, 600000, nullptr), cudaSuccess);
      EXPECT_EQ(cudaFreeAsync(first, nullptr), cudaSuccess);
    }
    exit_with_result();
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
}

class GpulessMemoryFaults : public ProcessTest {};

TEST_F(GpulessMemoryFaults, UseAfterAFreeInStreamOrder) {
  EXPECT_DEATH(
      {
        float* const x = pool_memory(64, nullptr);
        cudaFreeAsync(x, nullptr);
        fill(x, 64, 1, nullptr);
        cudaDeviceSynchronize();
      },
      "gpuless: kernel .*fill_kernel.* on the default stream: ");
}

TEST_F(GpulessMemoryFaults, AFreeThatDoesNotWaitForAnotherStream) {
  // Some seed lets the free come first.
  EXPECT_DEATH(
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        gpuless_set_seed(seed);
        const TestStream user;
        const TestStream other;
        float* const x = pool_memory(64, user);
        fill(x, 64, 1, user);
        cudaFreeAsync(x, other);
        cudaDeviceSynchronize();
      },
      "gpuless: kernel .*fill_kernel.* on stream [0-9]+: ");
}

TEST_F(GpulessMemoryFaults, DoubleFrees) {
  EXPECT_DEATH(
      {
        void* x = nullptr;
        cudaMalloc(&x, 64);
        cudaFree(x);
        cudaFree(x);
      },
      "gpuless: cudaFree: double free of an allocation of 64 bytes");
  EXPECT_DEATH(
      {
        void* const x = pool_memory(16, nullptr);
        cudaFreeAsync(x, nullptr);
        cudaFreeAsync(x, nullptr);
      },
      "gpuless: cudaFreeAsync: double free of an allocation of 64 bytes");
}

TEST_F(GpulessMemoryFaults, FreesOfWhatWasNotAllocated) {
  EXPECT_DEATH(
      {
        const DeviceArray<float> x(4);
        cudaFree(x.data() + 1);
      },
      "gpuless: cudaFree: not the beginning of an allocation");
  EXPECT_DEATH(
      {
        const DeviceArray<float> x(4);
        cudaFreeAsync(x.data(), nullptr);
      },
      "gpuless: cudaFreeAsync: memory that cudaMallocAsync did not allocate");
  EXPECT_DEATH(
      {
        float x = 0;
        cudaFreeHost(&x);
      },
      "gpuless: cudaFreeHost: not the beginning of page-locked memory");
}

TEST_F(GpulessMemoryFaults, CopiesOutOfBounds) {
  EXPECT_DEATH(
      {
        const DeviceArray<float> x(4);
        const float host[5] = {};
        cudaMemcpy(x.data(), host, sizeof(host), cudaMemcpyHostToDevice);
      },
      "gpuless: copy of 20 bytes to the device on the default stream: ");
  EXPECT_DEATH(
      {
        const DeviceArray<float> x(4);
        float host[4];
        cudaMemcpy(host, x.data() + 1, sizeof(host), cudaMemcpyDeviceToHost);
      },
      "gpuless: copy of 16 bytes to the host on the default stream: ");
}

TEST_F(GpulessMemoryFaults, CopiesInTheWrongDirection) {
  EXPECT_DEATH(
      {
        const DeviceArray<float> x(4);
        const DeviceArray<float> y(4);
        cudaMemcpy(y.data(), x.data(), x.bytes(), cudaMemcpyHostToDevice);
      },
      "gpuless: cudaMemcpy: the pointers are those of a copy on the device, not of one to the "
      "device");
}

TEST_F(GpulessMemoryFaults, PinnedMemoryThatIsFreedTooEarly) {
  EXPECT_DEATH(
      {
        const TestStream stream;
        const DeviceArray<float> x(1);
        void* pinned = nullptr;
        cudaHostAlloc(&pinned, sizeof(float), 0);
        cudaMemcpyAsync(x.data(), pinned, sizeof(float), cudaMemcpyHostToDevice, stream);
        cudaFreeHost(pinned);
        stream.synchronize();
      },
      "gpuless: copy of 4 bytes to the device on stream 1: page-locked memory of the host was "
      "freed before the copy was done");
}

TEST_F(GpulessMemoryFaults, WhatTheProgramLeavesQueuedIsRunAtItsEnd) {
  EXPECT_DEATH(
      {
        const DeviceArray<float> x(4);
        float* const y = pool_memory(4, nullptr);
        cudaFreeAsync(y, nullptr);
        fill(y, 4, 1, nullptr);
        std::exit(0);
      },
      "gpuless: kernel .*fill_kernel");
}

}  // namespace memory
}  // namespace
}  // namespace mobius::gpuless_test
