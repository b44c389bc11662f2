// The order of work: what streams and events demand holds under every seed, and what they do not
// demand shows under some.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <atomic>
#include <set>
#include <thread>

#include "tests/gpuless/cudart/gpuless.h"
#include "tests/gpuless/cudart/kernels.h"
#include "tests/gpuless/cudart/testing.h"

namespace mobius::gpuless_test {
namespace {
namespace streams {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr int seeds = 20;

/// The results of `body` under several seeds.
template <class Body>
std::set<float> results_of_seeds(const Body& body) {
  std::set<float> results;
  for (int seed = 0; seed < seeds; ++seed) {
    gpuless_set_seed(static_cast<std::uint64_t>(seed));
    results.insert(body());
  }
  return results;
}

/// One stream writes, another reads, and an event says so, or does not.
float handed_over(bool with_event) {
  const TestStream writer, reader;
  const TestEvent written;
  const DeviceArray<float> x(std::vector<float>{1}), y(std::vector<float>{0});
  fill(x.data(), 1, 5, writer);
  cudaEventRecord(written, writer);
  if (with_event) cudaStreamWaitEvent(reader, written, 0);
  axpy(y.data(), x.data(), 1, 1, reader);
  reader.synchronize();
  writer.synchronize();
  return y.values()[0];
}

TEST(GpulessStreams, HoldTheOrderOfEvents) {
  EXPECT_THAT(results_of_seeds([] { return handed_over(true); }), ElementsAre(5));
}

TEST(GpulessStreams, ShowAMissingEvent) {
  EXPECT_THAT(results_of_seeds([] { return handed_over(false); }), ElementsAre(1, 5));
}

/// A buffer that another stream still reads is written again.
float written_again(bool with_event) {
  const TestStream reader, writer;
  const TestEvent read;
  const DeviceArray<float> x(std::vector<float>{1}), y(std::vector<float>{0});
  axpy(y.data(), x.data(), 1, 1, reader);
  cudaEventRecord(read, reader);
  if (with_event) cudaStreamWaitEvent(writer, read, 0);
  fill(x.data(), 1, 5, writer);
  cudaDeviceSynchronize();
  return y.values()[0];
}

TEST(GpulessStreams, ShowAWriteThatDoesNotWaitForReaders) {
  EXPECT_THAT(results_of_seeds([] { return written_again(true); }), ElementsAre(1));
  EXPECT_THAT(results_of_seeds([] { return written_again(false); }), ElementsAre(1, 5));
}

TEST(GpulessStreams, WaitForTheRecordThatWasLast) {
  const auto body = [] {
    const TestStream a, b;
    const TestEvent event;
    const DeviceArray<float> x(std::vector<float>{0}), y(std::vector<float>{0});
    cudaEventRecord(event, a);
    fill(x.data(), 1, 3, a);
    cudaEventRecord(event, a);
    cudaStreamWaitEvent(b, event, 0);
    fill(x.data(), 1, 4, a);  // after the record: may come before or after
    axpy(y.data(), x.data(), 1, 1, b);
    cudaDeviceSynchronize();
    return y.values()[0];
  };
  EXPECT_THAT(results_of_seeds(body), ElementsAre(3, 4));
}

/// Whether work on a stream of these flags is ordered with the default stream, before and after.
float around_the_default_stream(unsigned flags) {
  const TestStream stream(flags);
  const DeviceArray<float> x(std::vector<float>{0}), y(std::vector<float>{0});
  fill(x.data(), 1, 1, stream);
  axpy(x.data(), x.data(), 1, 1, nullptr);  // doubles it
  axpy(y.data(), x.data(), 1, 1, stream);
  cudaDeviceSynchronize();
  return y.values()[0];
}

TEST(GpulessStreams, OrderBlockingStreamsWithTheDefaultOne) {
  EXPECT_THAT(results_of_seeds([] { return around_the_default_stream(cudaStreamDefault); }),
              ElementsAre(2));
  EXPECT_THAT(results_of_seeds([] { return around_the_default_stream(cudaStreamNonBlocking); }),
              ElementsAre(1, 2));
}

TEST(GpulessStreams, FinishTheWorkOfADestroyedStream) {
  const DeviceArray<float> x(std::vector<float>{0});
  {
    const TestStream stream;
    fill(x.data(), 1, 5, stream);
  }
  cudaDeviceSynchronize();
  EXPECT_THAT(x.values(), Each(5));
}

TEST(GpulessStreams, CallTheHostInOrder) {
  const TestStream stream;
  const DeviceArray<float> x(1);
  const PinnedArray seen(2);
  float* const pinned = seen.data();
  fill(x.data(), 1, 1, stream);
  cudaMemcpyAsync(pinned, x.data(), sizeof(float), cudaMemcpyDeviceToHost, stream);
  const auto copy = [](void* data) {
    auto* values = static_cast<float*>(data);
    values[1] = values[0] + 1;
  };
  cudaLaunchHostFunc(stream, copy, pinned);
  cudaMemcpyAsync(x.data(), pinned + 1, sizeof(float), cudaMemcpyHostToDevice, stream);
  stream.synchronize();
  EXPECT_THAT(x.values(), ElementsAre(2));
}

TEST(GpulessStreams, RunsLateAndAllInTheEnd) {
  const TestStream stream;
  const TestEvent event;
  const DeviceArray<float> x(1);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);  // never recorded
  for (int i = 0; i < 20; ++i) fill(x.data(), 1, static_cast<float>(i), stream);
  cudaEventRecord(event, stream);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  int polls = 0;
  while (cudaEventQuery(event) == cudaErrorNotReady) ++polls;
  EXPECT_GT(polls, 3);
  cudaGetLastError();
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  EXPECT_THAT(x.values(), ElementsAre(19));
}

TEST(GpulessStreams, ManyOperationsRunWithoutBeingWaitedFor) {
  const TestStream stream;
  const DeviceArray<float> x(1);
  const auto before = gpuless_counters();
  for (int i = 0; i < 2000; ++i) fill(x.data(), 1, 0, stream);
  const auto after = gpuless_counters();
  EXPECT_GT(after.launches, before.launches + 1000);
  EXPECT_EQ(after.host_waits, before.host_waits);
}

TEST(GpulessStreams, ServeSeveralThreads) {
  constexpr int rounds = 50;
  std::atomic<int> calls = 0;
  const auto work = [&] {
    const TestStream stream;
    const DeviceArray<float> x(100);
    for (int round = 0; round < rounds; ++round) {
      fill(x.data(), 100, static_cast<float>(round), stream);
      cudaLaunchHostFunc(
          stream, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &calls);
      if (round % 5 == 0) stream.synchronize();
    }
    stream.synchronize();
    EXPECT_THAT(x.values(), Each(rounds - 1));
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back(work);
  }
  EXPECT_EQ(calls, 3 * rounds);
}

TEST(GpulessStreams, MeasuresTime) {
  const TestStream stream;
  const TestEvent start, end;
  const DeviceArray<float> x(1000);
  cudaEventRecord(start, stream);
  fill(x.data(), 1000, 1, stream);
  cudaEventRecord(end, stream);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GT(milliseconds, 0);
  cudaGetLastError();
}

class GpulessStreamFaults : public ProcessTest {};

TEST_F(GpulessStreamFaults, AHostFunctionMustNotCallTheRuntime) {
  EXPECT_DEATH(
      {
        const TestStream stream;
        cudaLaunchHostFunc(
            stream, [](void*) { cudaDeviceSynchronize(); }, nullptr);
        stream.synchronize();
      },
      "gpuless: cudaDeviceSynchronize: called by a function that a stream runs on the host");
}

TEST_F(GpulessStreamFaults, AStaleStreamIsKnown) {
  EXPECT_DEATH(
      {
        cudaStream_t stream = nullptr;
        cudaStreamCreate(&stream);
        cudaStreamDestroy(stream);
        cudaStreamSynchronize(stream);
      },
      "gpuless: cudaStreamSynchronize: not a stream, or one that was destroyed");
}

TEST_F(GpulessStreamFaults, AnEventOfAnotherDeviceIsRefused) {
  const Environment two("MOBIUS_GPULESS_DEVICES", "2");
  EXPECT_DEATH(
      {
        const TestEvent event;
        cudaSetDevice(1);
        cudaEventRecord(event, nullptr);
      },
      "gpuless: cudaEventRecord: an event of device 0 on a stream of device 1");
}

}  // namespace streams
}  // namespace
}  // namespace mobius::gpuless_test
