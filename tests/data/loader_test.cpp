#include "data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "core/error.h"
#include "core/ops.h"
#include "data/mqar.h"
#include "tests/data/batch_rows.h"

namespace mobius::loader_test {
namespace {

using namespace std::chrono_literals;

// Makes a batch that holds only its step.
Batch numbered(std::uint64_t step) {
  Batch batch;
  batch.group = static_cast<int>(step);
  return batch;
}

// Waits until the condition holds, at most 10 seconds.
template <typename Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 10000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
  return condition();
}

TEST(Prefetcher, KeepsTheOrderFromAnyStep) {
  Prefetcher batches(numbered, 37, 237, 3);
  for (int step = 37; step < 237; ++step) EXPECT_EQ(batches.next().group, step);
  EXPECT_THROW(batches.next(), Error);
}

// The loader's thread flushes subnormal numbers like all others.
TEST(Prefetcher, BatchesAreMadeWithoutSubnormalNumbers) {
  Prefetcher batches(
      [](std::uint64_t) {
        const Tensor tiny = Tensor::full({40000}, 1e-20);
        Batch batch;
        batch.inputs = mul(tiny, tiny);
        return batch;
      },
      0, 1);
  EXPECT_EQ(batches.next().inputs.to_vector<float>(), std::vector<float>(40000, 0));
}

TEST(Prefetcher, ResumesWhereAnotherStopped) {
  MqarOptions options;
  options.seq_len = 32;
  options.n_pairs = 4;
  const auto task = options.build(1);
  const auto make = [&](std::uint64_t step) { return task->batch(Split::train, step, 4); };
  std::vector<std::vector<Sequence>> whole, parts;
  Prefetcher uninterrupted(make);
  for (int i = 0; i < 10; ++i) whole.push_back(rows_of(uninterrupted.next()));
  {
    Prefetcher first(make, 0);
    for (int i = 0; i < 4; ++i) parts.push_back(rows_of(first.next()));
  }
  Prefetcher second(make, 4);
  for (int i = 4; i < 10; ++i) parts.push_back(rows_of(second.next()));
  EXPECT_EQ(parts, whole);
}

TEST(Prefetcher, WorksAheadButHoldsNoMoreThanItsDepth) {
  std::atomic<int> made = 0;
  Prefetcher batches(
      [&](std::uint64_t step) {
        ++made;
        return numbered(step);
      },
      0, 1000, 3);
  ASSERT_TRUE(eventually([&] { return made == 4; }));  // three wait, the fourth has no room
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(made, 4);
  batches.next();
  ASSERT_TRUE(eventually([&] { return made == 5; }));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(made, 5);
}

TEST(Prefetcher, MakesNothingPastTheEnd) {
  std::atomic<std::uint64_t> last = 0;
  Prefetcher batches(
      [&](std::uint64_t step) {
        last = step;
        return numbered(step);
      },
      0, 3, 10);
  for (int i = 0; i < 3; ++i) batches.next();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(last, 2u);
}

TEST(Prefetcher, PassesAnErrorOnInItsTurn) {
  Prefetcher batches([](std::uint64_t step) {
    if (step == 2) throw Error("no batch 2");
    return numbered(step);
  });
  EXPECT_EQ(batches.next().group, 0);
  EXPECT_EQ(batches.next().group, 1);
  for (int i = 0; i < 2; ++i) {
    try {
      batches.next();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "no batch 2");
    }
  }
}

TEST(Prefetcher, StopsAtOnceWhetherUsedOrNot) {
  for (int used = 0; used < 3; ++used) {
    std::atomic<int> made = 0;
    {
      Prefetcher batches([&](std::uint64_t step) {
        ++made;
        return numbered(step);
      });
      for (int i = 0; i < used; ++i) batches.next();
    }
    EXPECT_LE(made, used + 3);
  }
}

TEST(Prefetcher, RefusesNoDepth) { EXPECT_THROW(Prefetcher(numbered, 0, 1, 0), Error); }

}  // namespace
}  // namespace mobius::loader_test
