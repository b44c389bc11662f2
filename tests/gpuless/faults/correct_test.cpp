// Correct kernels run without a fault, under several orders of warps and blocks, and give what they
// should.

#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/gpuless/faults/faults.h"

namespace mobius::ptx {
namespace correct_kernels {

class Correct : public testing::TestWithParam<std::uint64_t> {
 protected:
  Correct() : kernels(kernels_of("correct")) { kernels.config.seed = GetParam(); }
  KernelRunner kernels;
};

INSTANTIATE_TEST_SUITE_P(Orders, Correct, testing::Range<std::uint64_t>(0, kSeeds));

TEST_P(Correct, ExitedAtBarrier) {
  const auto in = kernels.upload(counting(100));
  const auto out = kernels.allocate<float>(100);
  kernels.run("exited_at_barrier", {}, {128, 1, 1}, in, out, 100);
  const auto result = kernels.download<float>(out, 100);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(result[i], static_cast<float>(99 - i));
}

TEST_P(Correct, WarpExchange) {
  const auto in = kernels.upload(counting(64));
  const auto out = kernels.allocate<float>(64);
  kernels.run("warp_exchange", {}, {64, 1, 1}, in, out);
  const auto result = kernels.download<float>(out, 64);
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_EQ(result[i], static_cast<float>(i / 32 * 32 + 31 - i % 32 + 99));
}

TEST_P(Correct, DoubleBuffer) {
  const auto in = kernels.upload(counting(5 * 256));
  const auto out = kernels.allocate<float>(256);
  const LaunchCounters counters = kernels.run("double_buffer", {}, {64, 1, 1}, in, out, 5);
  EXPECT_EQ(counters.asynchronous_copies, 10u);
  const auto result = kernels.download<float>(out, 256);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t from = (63 - i / 4) * 4 + i % 4;
    EXPECT_EQ(result[i], static_cast<float>(5 * from + 256 * (0 + 1 + 2 + 3 + 4)));
  }
}

TEST_P(Correct, ZeroFill) {
  const auto in = kernels.upload(std::vector<float>(70, 1));
  const auto out = kernels.allocate<float>(32);
  kernels.run("zero_fill", {}, {32, 1, 1}, in, out, 70);
  const auto result = kernels.download<float>(out, 32);
  EXPECT_EQ(std::accumulate(result.begin(), result.end(), 0.0f), 70);
  EXPECT_EQ(result[17], 2);
}

TEST_P(Correct, Histogram) {
  std::vector<int> values(3000);
  std::vector<int> expected(16);
  for (std::size_t i = 0; i < values.size(); ++i)
    ++expected[static_cast<std::size_t>(values[i] = static_cast<int>(i * i % 97)) % 16];
  const auto in = kernels.upload(values);
  const auto out = kernels.upload(std::vector<int>(16));
  kernels.config.threads = 2;
  kernels.run("histogram", {8, 1, 1}, {64, 1, 1}, in, out, 3000);
  EXPECT_EQ(kernels.download<int>(out, 16), expected);
}

TEST_P(Correct, LastBlockSums) {
  const auto in = kernels.upload(counting(32 * 50));
  const auto partial = kernels.allocate<float>(32 * 50);
  const auto count = kernels.upload(std::vector<unsigned>{0});
  const auto out = kernels.allocate<float>(32);
  kernels.config.threads = 2;
  for (int repetition = 0; repetition < 2; ++repetition) {
    kernels.run("last_block_sums", {50, 1, 1}, {32, 1, 1}, in, partial, count, out);
    const auto result = kernels.download<float>(out, 32);
    for (std::size_t i = 0; i < 32; ++i)
      EXPECT_EQ(result[i], static_cast<float>(50 * i + 32 * 49 * 25));
    EXPECT_EQ(kernels.download<unsigned>(count, 1)[0], 0u);
  }
}

TEST_P(Correct, Reinterpreted) {
  const auto in = kernels.upload(counting(32));
  const auto out = kernels.allocate<int>(32);
  kernels.config.dynamic_shared_bytes = 128;
  kernels.run("reinterpreted", {}, {32, 1, 1}, in, out);
  const auto result = kernels.download<int>(out, 32);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(result[static_cast<std::size_t>(i)], i);
}

TEST_P(Correct, ByteWide) {
  std::vector<unsigned char> bytes(96);
  std::iota(bytes.begin(), bytes.end(), 0);
  const auto in = kernels.upload(bytes);
  const auto out = kernels.allocate<unsigned char>(96);
  kernels.run("byte_wide", {}, {96, 1, 1}, in, out);
  const auto result = kernels.download<unsigned char>(out, 96);
  for (std::size_t i = 0; i < 96; ++i) EXPECT_EQ(result[i], 96 - i);
}

TEST_P(Correct, NeighbouringHalves) {
  const auto data = kernels.upload(std::vector<std::uint16_t>(330, 1));
  kernels.config.threads = 2;
  kernels.run("neighbouring_halves", {10, 1, 1}, {64, 1, 1}, data, 330);
  EXPECT_EQ(kernels.download<std::uint16_t>(data, 330), std::vector<std::uint16_t>(330, 2));
}

TEST_P(Correct, SameValue) {
  const auto in = kernels.upload(std::vector<int>(64, 5));
  const auto out = kernels.allocate<int>(64);
  kernels.run("same_value", {}, {64, 1, 1}, out, in);
  EXPECT_EQ(kernels.download<int>(out, 64), std::vector<int>(64, 1));
}

TEST_P(Correct, NamedBarriers) {
  const auto in = kernels.upload(counting(32));
  const auto out = kernels.allocate<float>(32);
  kernels.run("named_barriers", {}, {96, 1, 1}, in, out);
  const auto result = kernels.download<float>(out, 32);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(result[i], static_cast<float>(31 - i));
}

TEST_P(Correct, SyncwarpInBranches) {
  const auto out = kernels.allocate<int>(32);
  kernels.run("syncwarp_in_branches", {}, {32, 1, 1}, out);
  const auto result = kernels.download<int>(out, 32);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(result[static_cast<std::size_t>(i)], i < 16 ? 131 - i : 2 * (31 - i));
}

TEST_P(Correct, ShuffleInHalves) {
  const auto out = kernels.allocate<int>(32);
  kernels.run("shuffle_in_halves", {}, {32, 1, 1}, out);
  const auto result = kernels.download<int>(out, 32);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(result[static_cast<std::size_t>(i)], i < 16 ? i ^ 1 : i ^ 2);
}

TEST_P(Correct, RaggedLoop) {
  const auto out = kernels.allocate<int>(32);
  kernels.run("ragged_loop", {}, {32, 1, 1}, out);
  const auto result = kernels.download<int>(out, 32);
  for (int lane = 0; lane < 32; ++lane) {
    int sum = 32;
    for (int i = 0; i <= lane; ++i) sum += i + (i < lane && i % 3 != 2 ? 1 : 0);
    EXPECT_EQ(result[static_cast<std::size_t>(lane)], sum);
  }
}

}  // namespace correct_kernels
}  // namespace mobius::ptx
