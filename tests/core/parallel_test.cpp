#include "core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/thread_limit.h"
#include "tests/core/ops/kernel_testing.h"

namespace mobius::parallel_test {
namespace {

using Chunk = std::pair<std::int64_t, std::int64_t>;

std::multiset<Chunk> chunks_of(std::int64_t n, std::int64_t grain) {
  std::mutex mutex;
  std::multiset<Chunk> chunks;
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    chunks.insert({begin, end});
  });
  return chunks;
}

TEST(Parallel, ChunksDependOnSizeAndGrainAlone) {
  const testing::ThreadCountGuard guard;
  for (const int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    EXPECT_EQ(num_threads(), threads);
    EXPECT_EQ(chunks_of(10, 4), (std::multiset<Chunk>{{0, 4}, {4, 8}, {8, 10}}));
    EXPECT_EQ(chunks_of(8, 4), (std::multiset<Chunk>{{0, 4}, {4, 8}}));
    EXPECT_EQ(chunks_of(3, 100), (std::multiset<Chunk>{{0, 3}}));
    EXPECT_EQ(chunks_of(2, 0), (std::multiset<Chunk>{{0, 1}, {1, 2}}));
    EXPECT_TRUE(chunks_of(0, 4).empty());
    EXPECT_EQ(chunks_of(1001, 1).size(), 1001u);
  }
}

TEST(Parallel, UsesSeveralThreads) {
  const testing::ThreadCountGuard guard;
  set_num_threads(2);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  std::atomic<int> arrived = 0;
  parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();  // each chunk needs the other one's thread
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(seen.size(), 2u);
}

TEST(Parallel, ThreadCountHoldsInEveryHostThread) {
  const testing::ThreadCountGuard guard;
  set_num_threads(3);
  int seen = 0;
  std::thread([&] { seen = num_threads(); }).join();
  EXPECT_EQ(seen, 3);
  EXPECT_THROW(set_num_threads(0), Error);
  EXPECT_THROW(set_num_threads(most_threads + 1), Error);
}

TEST(Parallel, RethrowsTheExceptionOfTheFirstChunk) {
  const testing::ThreadCountGuard guard;
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    try {
      parallel_for(100, 1, [](std::int64_t begin, std::int64_t) {
        if (begin % 10 == 3) throw Error("chunk {}", begin);
      });
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "chunk 3");
    }
  }
}

TEST(Parallel, NestedCallsRunOnTheCallingThread) {
  const testing::ThreadCountGuard guard;
  set_num_threads(2);
  std::atomic<int> elsewhere = 0, visited = 0;
  parallel_for(4, 1, [&](std::int64_t, std::int64_t) {
    const auto outer = std::this_thread::get_id();
    parallel_for(8, 1, [&](std::int64_t, std::int64_t) {
      ++visited;
      if (std::this_thread::get_id() != outer) ++elsewhere;
    });
  });
  EXPECT_EQ(visited, 32);
  EXPECT_EQ(elsewhere, 0);
}

}  // namespace
}  // namespace mobius::parallel_test
