// Memory and copies of a CUDA device. The tests run on MOBIUS_TEST_DEVICE=cuda alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <numeric>
#include <thread>

#include "core/backend.h"
#include "core/ops/copy.h"
#include "tests/device.h"
#include "tests/error_of.h"
#include "tests/gpuless/cudart/gpuless.h"

namespace mobius::cuda_memory_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CudaMemory : public ::testing::Test {
 protected:
  Allocator& allocator_ = allocator_for(testing::device());
};

TEST_F(CudaMemory, CountsWhatTensorsAskFor) {
  const std::size_t before = allocator_.stats().current;
  allocator_.reset_peak();
  {
    const Tensor a = placed::empty({1000}), b = placed::empty({3}, DType::u8);
    EXPECT_EQ(allocator_.stats().current, before + 4003);
    const Tensor nothing = placed::empty({0});
    EXPECT_EQ(allocator_.stats().current, before + 4004);
  }
  EXPECT_EQ(allocator_.stats().current, before);
  EXPECT_EQ(allocator_.stats().peak, before + 4004);
  allocator_.reset_peak();
  EXPECT_EQ(allocator_.stats().peak, before);
}

TEST_F(CudaMemory, KeepsWhatIsFreedUntilItIsReleased) {
  allocator_.release_cache();
  { const Tensor large = placed::zeros({1 << 20}); }
  EXPECT_GE(allocator_.stats().cached, std::size_t{4} << 20);
  allocator_.release_cache();
  EXPECT_EQ(allocator_.stats().cached, 0u);
}

TEST_F(CudaMemory, OutOfMemorySaysWhatWasAskedWhatIsThereAndWhatHelps) {
  const Tensor held = placed::zeros({256});
  const auto more_than_there_is = static_cast<std::int64_t>(*allocator_.available()) * 2;
  const std::string error =
      error_of<OutOfMemory>([&] { placed::empty({more_than_there_is}, DType::u8); });
  EXPECT_THAT(error,
              StartsWith(fmt::format("device cuda:0: out of memory: asked for {} bytes with ",
                                     more_than_there_is)));
  EXPECT_THAT(error, AllOf(HasSubstr("bytes in use"), HasSubstr("GiB are free"),
                           HasSubstr("train.batch_size")));
  EXPECT_EQ(placed::ones({4}).to_vector<float>(), std::vector<float>(4, 1));  // it goes on
}

TEST_F(CudaMemory, ATensorMayEndOnAnotherThread) {
  const std::size_t before = allocator_.stats().current;
  Tensor made = std::async(std::launch::async, [] { return placed::full({1000}, 3); }).get();
  EXPECT_EQ(made.to_vector<float>(), std::vector<float>(1000, 3));
  std::thread([moved = std::exchange(made, Tensor())] {}).join();
  EXPECT_EQ(allocator_.stats().current, before);
}

std::vector<std::int32_t> counting(std::int64_t n) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

// From none to several of the buffers that copies pass through, and views that start anywhere.
TEST_F(CudaMemory, CopiesOfAnySizeArrive) {
  for (const std::int64_t n : {1, 7, 262144, 262145, 1000003}) {
    std::vector<std::int32_t> values = counting(n);
    const Tensor x = placed::from(values, {n});
    std::fill(values.begin(), values.end(), -1);  // the copy was taken
    ASSERT_EQ(x.to_vector<std::int32_t>(), counting(n)) << n;
    ASSERT_EQ(x.slice(0, n / 2, n).to_vector<std::int32_t>().front(), n / 2);
  }
}

TEST_F(CudaMemory, ManySmallCopiesWaitForNothing) {
  auto* const counters = gpuless_find<GpulessCounters()>("gpuless_counters");
  if (!counters) GTEST_SKIP() << "a real device does not count";
  (void)placed::ones({1}).to_vector<float>();
  const std::uint64_t before = counters().host_waits;
  std::vector<Tensor> made;
  for (int i = 0; i < 5000; ++i)
    made.push_back(placed::from(std::vector<float>(100, 1.0f * i), {100}));
  EXPECT_EQ(counters().host_waits, before);
  for (int i = 0; i < 5000; i += 777)
    EXPECT_EQ(made[static_cast<std::size_t>(i)].to_vector<float>(),
              std::vector<float>(100, 1.0f * i));
}

TEST_F(CudaMemory, ThreadsCopyAtOnce) {
  const auto work = [](std::int32_t mark) {
    for (int i = 0; i < 200; ++i) {
      const std::vector<std::int32_t> values(static_cast<std::size_t>(1 + i * 37), mark);
      const Tensor x = placed::from(values, {std::ssize(values)});
      if (x.to_vector<std::int32_t>() != values) return false;
    }
    return true;
  };
  auto other = std::async(std::launch::async, work, 1);
  EXPECT_TRUE(work(2));
  EXPECT_TRUE(other.get());
}

// Freed when the program has ended: it must neither throw nor crash.
TEST_F(CudaMemory, ATensorMayOutliveMain) {
  static const Tensor kept = placed::ones({8});
  EXPECT_EQ(kept.to_vector<float>(), std::vector<float>(8, 1));
}

}  // namespace
}  // namespace mobius::cuda_memory_test
