#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/gpuless/ptx/half.h"
#include "tests/gpuless/ptx/kernel_runner.h"

namespace mobius::ptx {
namespace warps {

KernelRunner kernels() { return KernelRunner(std::string(GPULESS_KERNELS) + "/warps.ptx"); }

std::vector<int> counting(int count) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(Warp, Shuffles) {
  KernelRunner runner = kernels();
  const auto out = runner.allocate<int>(192);
  runner.run("shuffles", {}, {32, 1, 1}, runner.upload(counting(32)), out);
  const auto result = runner.download<int>(out, 192);
  for (int lane = 0; lane < 32; ++lane) {
    const auto at = [&](int row) { return result[static_cast<std::size_t>(32 * row + lane)]; };
    EXPECT_EQ(at(0), lane * 7 % 32);
    EXPECT_EQ(at(1), lane < 3 ? lane : lane - 3);
    EXPECT_EQ(at(2), lane + 5 > 31 ? lane : lane + 5);
    EXPECT_EQ(at(3), lane ^ 9);
    EXPECT_EQ(at(4), lane / 8 * 8 + 2);
    EXPECT_EQ(at(5), lane % 4 == 3 ? lane : lane + 1);
  }
}

TEST(Warp, Votes) {
  KernelRunner runner = kernels();
  const auto out = runner.upload(std::vector<unsigned>(224));
  runner.run("votes", {}, {32, 1, 1}, runner.upload(counting(32)), out);
  const auto result = runner.download<unsigned>(out, 224);
  for (unsigned lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(result[lane], 0xFFFFF800u);
    EXPECT_EQ(result[32 + lane], 1u);
    EXPECT_EQ(result[64 + lane], 0u);
    EXPECT_EQ(result[96 + lane], 0x11111111u << lane % 4);
    EXPECT_EQ(result[128 + lane], 0u);  // all ones, plus one
    EXPECT_EQ(result[160 + lane], 496u + 31u + 0u);
    EXPECT_EQ(result[192 + lane], lane % 2 == 1 ? 0xAAAAAAAAu : 0u);
  }
}

TEST(Warp, VotesOfTheBlock) {
  KernelRunner runner = kernels();
  const auto out = runner.allocate<int>(70);
  runner.run("block_votes", {}, {70, 1, 1}, runner.upload(counting(70)), out);
  EXPECT_EQ(runner.download<int>(out, 70), std::vector<int>(70, 24 + 1000));
}

TEST(Warp, CooperativeGroups) {
  KernelRunner runner = kernels();
  const auto out = runner.upload(std::vector<float>(128));
  runner.run("tiles", {}, {64, 1, 1}, runner.upload(std::vector<float>(64, 2)), out);
  const auto result = runner.download<float>(out, 128);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(result[i], 16);
  for (std::size_t i = 0; i < 64; i += 3) {
    const std::size_t before = i < 32 ? i / 3 : (i - 33) / 3;
    EXPECT_EQ(result[64 + i], static_cast<float>((i < 32 ? 1100 : 1100 - 100 * 0) + before)) << i;
  }
}

TEST(Warp, Atomics) {
  KernelRunner runner = kernels();
  const auto ints = runner.upload(std::vector<int>(8 + 128));
  const auto floats = runner.upload(std::vector<float>(1));
  const auto doubles = runner.upload(std::vector<double>(1));
  const auto longs = runner.upload(std::vector<unsigned long long>(3));
  runner.config.threads = 2;
  const LaunchCounters counters =
      runner.run("atomics", {2, 1, 1}, {32, 1, 1}, ints, floats, doubles, longs);
  const auto result = runner.download<int>(ints, 8 + 128);
  EXPECT_EQ(result[0], 63 * 32);
  EXPECT_EQ(result[1], 63);
  EXPECT_EQ(result[2], -63);
  EXPECT_EQ(result[3], -1);
  EXPECT_EQ(result[4], 0);
  EXPECT_EQ(result[5], 64 % 7);
  for (std::size_t i = 8; i < 72; ++i) EXPECT_EQ(result[i], 5 + 2 * 32);
  for (std::size_t i = 72; i < 136; ++i) EXPECT_EQ(result[i], 5 + 32);
  EXPECT_EQ(runner.download<float>(floats, 1)[0], 32);
  EXPECT_EQ(runner.download<double>(doubles, 1)[0], 16);
  EXPECT_EQ(runner.download<unsigned long long>(longs, 3),
            (std::vector<unsigned long long>{64ull << 33, 96, 96}));
  EXPECT_GE(counters.atomics, 2u * 11);
}

// Multiplies tiles of small numbers and compares to sums in double.
template <typename T, typename Encode>
void expect_product(const std::string& kernel, int inner, Encode encode, double tolerance) {
  KernelRunner runner = kernels();
  std::vector<double> a(static_cast<std::size_t>(16 * inner));
  std::vector<double> b(static_cast<std::size_t>(inner * 8));
  std::vector<float> c(16 * 8);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(i * 37 % 64) / 16 - 2;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<double>(i * 29 % 128) / 32 - 2;
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(i) / 7;
  const auto encoded = [&](const std::vector<double>& values) {
    std::vector<T> all;
    for (const double value : values) all.push_back(encode(static_cast<float>(value)));
    return all;
  };
  const auto d = runner.allocate<float>(16 * 8);
  const LaunchCounters counters = runner.run(kernel, {}, {32, 1, 1}, runner.upload(encoded(a)),
                                             runner.upload(encoded(b)), runner.upload(c), d);
  EXPECT_EQ(counters[InstructionClass::tensor].warps, 1u);
  const auto result = runner.download<float>(d, 16 * 8);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      double sum = static_cast<double>(c[static_cast<std::size_t>(row * 8 + column)]);
      for (int k = 0; k < inner; ++k) {
        sum += a[static_cast<std::size_t>(row * inner + k)] *
               b[static_cast<std::size_t>(k * 8 + column)];
      }
      EXPECT_NEAR(static_cast<double>(result[static_cast<std::size_t>(row * 8 + column)]), sum,
                  tolerance);
    }
  }
}

TEST(Tensor, Products) {
  expect_product<std::uint16_t>(
      "product_bf16", 16, [](float x) { return from_float<Bfloat>(x).bits; }, 1e-5);
  expect_product<std::uint16_t>(
      "product_f16", 8, [](float x) { return from_float<Half>(x).bits; }, 1e-5);
  // The lower 13 bits do not count.
  expect_product<std::uint32_t>(
      "product_tf32", 8, [](float x) { return std::bit_cast<std::uint32_t>(x) | 0x1FFF; }, 1e-5);
}

TEST(Counters, SectorsOfGlobalMemory) {
  KernelRunner runner = kernels();
  const auto in = runner.upload(std::vector<float>(32 * 32, 1));
  const auto out = runner.allocate<float>(32);
  for (const auto& [stride, sectors] : {std::pair{0, 1u}, {1, 4u}, {2, 8u}, {8, 32u}, {32, 32u}}) {
    const LaunchCounters counters = runner.run("strided_read", {}, {32, 1, 1}, in, out, stride);
    EXPECT_EQ(counters.global_reads.requests, 1u);
    EXPECT_EQ(counters.global_reads.sectors, sectors) << stride;
    EXPECT_EQ(counters.global_reads.bytes, 128u);
    EXPECT_EQ(counters.global_writes.sectors, 4u);
    EXPECT_EQ(counters.blocks, 1u);
  }
}

TEST(Counters, WavefrontsOfSharedMemory) {
  KernelRunner runner = kernels();
  const auto out = runner.allocate<float>(32);
  for (const auto& [stride, wavefronts] :
       {std::pair{0, 1u}, {1, 1u}, {2, 2u}, {4, 4u}, {32, 32u}, {33, 1u}}) {
    const LaunchCounters counters = runner.run("strided_shared", {}, {32, 1, 1}, out, stride);
    EXPECT_EQ(counters.shared_reads.requests, 1u);
    EXPECT_EQ(counters.shared_reads.wavefronts, wavefronts) << stride;
    EXPECT_EQ(counters.shared_reads.ideal_wavefronts, 1u);
    EXPECT_EQ(counters.shared_writes.wavefronts, 33u);
    EXPECT_EQ(counters.block_barriers, 1u);
  }
}

TEST(Counters, AddUp) {
  KernelRunner runner = kernels();
  const auto in = runner.upload(std::vector<float>(32, 1));
  const auto out = runner.allocate<float>(32);
  LaunchCounters sum = runner.run("strided_read", {}, {32, 1, 1}, in, out, 1);
  const std::uint64_t once = sum.warp_instructions();
  EXPECT_GT(once, 5u);
  EXPECT_EQ(sum.lane_instructions(), 32 * once);
  EXPECT_EQ(sum[InstructionClass::memory].warps, 2u);
  sum += runner.run("strided_read", {}, {32, 1, 1}, in, out, 1);
  EXPECT_EQ(sum.warp_instructions(), 2 * once);
  EXPECT_EQ(sum.global_reads.sectors, 8u);
}

}  // namespace warps
}  // namespace mobius::ptx
