// The caching allocator on a system that refuses to give more than a limit, and the CPU's own.
#include "core/allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "core/backend.h"
#include "core/gpus.h"
#include "core/tensor.h"
#include "tests/error_of.h"

namespace mobius::allocator_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class LimitedAllocator final : public CachingAllocator {
 public:
  explicit LimitedAllocator(std::size_t limit) : limit_(limit) {}
  ~LimitedAllocator() override {
    release_cache();
    EXPECT_EQ(given_, 0u) << "not everything went back to the system";
  }

  std::size_t given() const { return given_; }
  int calls() const { return calls_; }

 protected:
  void* system_allocate(std::size_t bytes) override {
    EXPECT_EQ(bytes, size_class(bytes));
    if (given_ + bytes > limit_) return nullptr;
    given_ += bytes;
    ++calls_;
    return std::aligned_alloc(alignment, bytes);
  }
  void system_deallocate(void* block, std::size_t bytes) noexcept override {
    given_ -= bytes;
    std::free(block);
  }

 private:
  std::size_t limit_, given_ = 0;
  int calls_ = 0;
};

TEST(Allocator, SizeClassesWasteAtMostAnEighth) {
  EXPECT_EQ(CachingAllocator::size_class(0), 64u);
  EXPECT_EQ(CachingAllocator::size_class(1), 64u);
  EXPECT_EQ(CachingAllocator::size_class(64), 64u);
  EXPECT_EQ(CachingAllocator::size_class(65), 128u);
  EXPECT_EQ(CachingAllocator::size_class(4096), 4096u);
  EXPECT_EQ(CachingAllocator::size_class(4097), 4608u);
  EXPECT_EQ(CachingAllocator::size_class(1 << 20), 1u << 20);
  std::size_t last = 0;
  for (std::size_t bytes = 1; bytes < (std::size_t{1} << 40); bytes += bytes / 13 + 1) {
    const std::size_t capacity = CachingAllocator::size_class(bytes);
    ASSERT_GE(capacity, bytes);
    ASSERT_GE(capacity, last);
    ASSERT_EQ(capacity % CachingAllocator::alignment, 0u);
    ASSERT_EQ(CachingAllocator::size_class(capacity), capacity);
    if (bytes > 4096) {
      ASSERT_LE(capacity - bytes, bytes / 8) << bytes;
    }
    last = capacity;
  }
}

TEST(Allocator, ReusesFreedBlocks) {
  LimitedAllocator allocator(1 << 20);
  void* first = allocator.allocate(10000);
  allocator.deallocate(first, 10000);
  EXPECT_EQ(allocator.allocate(9900), first) << "9900 and 10000 bytes are of one size class";
  void* second = allocator.allocate(9900);
  EXPECT_NE(second, first);
  EXPECT_EQ(allocator.calls(), 2);
  allocator.deallocate(first, 9900);
  allocator.deallocate(second, 9900);
}

TEST(Allocator, CountsCurrentPeakAndCachedBytes) {
  LimitedAllocator allocator(1 << 20);
  void* a = allocator.allocate(100);  // 128
  void* b = allocator.allocate(4096);
  EXPECT_EQ(allocator.stats().current, 4224u);
  allocator.deallocate(b, 4096);
  EXPECT_EQ(allocator.stats().current, 128u);
  EXPECT_EQ(allocator.stats().peak, 4224u);
  EXPECT_EQ(allocator.stats().cached, 4096u);
  allocator.reset_peak();
  EXPECT_EQ(allocator.stats().peak, 128u);
  b = allocator.allocate(4096);
  EXPECT_EQ(allocator.stats().cached, 0u);
  EXPECT_EQ(allocator.stats().peak, 4224u);
  allocator.deallocate(a, 100);
  allocator.deallocate(b, 4096);
  allocator.release_cache();
  EXPECT_EQ(allocator.stats().current, 0u);
  EXPECT_EQ(allocator.stats().cached, 0u);
  EXPECT_EQ(allocator.given(), 0u);
}

TEST(Allocator, GivesItsCacheBackBeforeItFails) {
  LimitedAllocator allocator(10000);
  allocator.deallocate(allocator.allocate(4096), 4096);
  allocator.deallocate(allocator.allocate(2048), 2048);
  void* large = allocator.allocate(8192);  // fits only without the cache
  EXPECT_EQ(allocator.stats().cached, 0u);
  allocator.deallocate(large, 8192);
}

TEST(Allocator, OutOfMemorySaysWhatWasAskedAndWhatIsInUse) {
  LimitedAllocator allocator(8192);
  void* held = allocator.allocate(1024);
  allocator.deallocate(allocator.allocate(2048), 2048);
  try {
    allocator.allocate(7900);
    FAIL() << "8192 bytes of room cannot hold 1024 and 7900";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.requested(), 7900u);
    EXPECT_EQ(error.in_use(), 1024u);
    EXPECT_EQ(error.cached(), 2048u);
    EXPECT_THAT(error.what(), HasSubstr("7900 bytes"));
    EXPECT_THAT(error.what(), HasSubstr("1024 bytes in use"));
    EXPECT_THAT(error.what(), HasSubstr("2048 bytes cached"));
  }
  EXPECT_EQ(allocator.stats().current, 1024u) << "a failed request must not count";
  allocator.deallocate(allocator.allocate(4096), 4096);  // it goes on
  allocator.deallocate(held, 1024);
}

TEST(Allocator, RefusesSizesThatNoMemoryHas) {
  LimitedAllocator allocator(1000);
  EXPECT_THROW(allocator.allocate(std::numeric_limits<std::size_t>::max()), OutOfMemory);
  EXPECT_THROW(allocator_for({}).allocate(std::size_t{1} << 60), OutOfMemory);
  EXPECT_THROW(Tensor::empty({std::int64_t{1} << 58}), OutOfMemory);
}

TEST(CpuAllocator, BlocksAreAlignedWritableAndDistinct) {
  Allocator& allocator = allocator_for({});
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 5000, 2 << 20, (2 << 20) + 1, 9 << 20}) {
    void* a = allocator.allocate(bytes);
    void* b = allocator.allocate(bytes);
    EXPECT_NE(a, b);
    for (void* block : {a, b}) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0u) << bytes;
      std::memset(block, 0xa5, bytes);
    }
    allocator.deallocate(a, bytes);
    allocator.deallocate(b, bytes);
  }
  allocator.release_cache();
  EXPECT_EQ(allocator.stats().cached, 0u);
}

TEST(CpuAllocator, CountsTensors) {
  Allocator& allocator = allocator_for({});
  const std::size_t before = allocator.stats().current;
  {
    const Tensor x = Tensor::empty({1000, 256});
    EXPECT_EQ(allocator.stats().current - before, CachingAllocator::size_class(x.bytes()));
  }
  EXPECT_EQ(allocator.stats().current, before);
}

TEST(CpuAllocator, ServesSeveralThreads) {
  Allocator& allocator = allocator_for({});
  const std::size_t before = allocator.stats().current;
  const auto work = [&](unsigned char mark) {
    for (int i = 0; i < 2000; ++i) {
      const std::size_t bytes = 100 + static_cast<std::size_t>(i % 7) * 400;
      auto* block = static_cast<unsigned char*>(allocator.allocate(bytes));
      std::memset(block, mark, bytes);
      ASSERT_EQ(block[bytes - 1], mark);
      ASSERT_EQ(block[0], mark);
      allocator.deallocate(block, bytes);
    }
  };
  std::thread other(work, static_cast<unsigned char>(1));
  work(2);
  other.join();
  EXPECT_EQ(allocator.stats().current, before);
}

TEST(Backends, ThoseOfThisBuild) {
  EXPECT_EQ(&backend_for({}), &backend_for({}));
  const auto error_on = [](Device device) { return error_of([&] { backend_for(device); }); };
  const std::string problem = find_gpus().problem;
  EXPECT_THAT(error_on({DeviceType::cuda, 99}),
              AllOf(StartsWith("device cuda"),
                    HasSubstr(problem.empty() ? "there is no such device" : problem)));
  EXPECT_EQ(error_on({DeviceType::cpu, 1}), "device cpu: there is no such device");
}

}  // namespace
}  // namespace mobius::allocator_test
