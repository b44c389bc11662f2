// Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as
// easy as 1, 2, 3"). A number depends only on (seed, stream, index), not on the device, the thread,
// the rank or earlier draws.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace mobius {

/// Identifies a sequence of random numbers. Streams of one seed are independent of each other.
struct RngKey {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
};

/// Derives a stream from a purpose and numbers that identify its use (step, layer, ...). Equal
/// arguments give equal streams; different arguments give different ones with probability
/// 1 - 2^-64.
std::uint64_t stream_id(std::string_view purpose, std::uint64_t a = 0, std::uint64_t b = 0);

/// Returns the four 32-bit words of block `index` of the stream, in the kernels of every device.
constexpr std::array<std::uint32_t, 4> philox(RngKey key, std::uint64_t index) {
  std::uint32_t c0 = static_cast<std::uint32_t>(index),
                c1 = static_cast<std::uint32_t>(index >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(key.stream),
                c3 = static_cast<std::uint32_t>(key.stream >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(key.seed),
                k1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

/// A cursor over one stream, for host code that draws a varying number of values.
class Rng {
 public:
  explicit Rng(RngKey key) : key_(key) {}

  std::uint32_t next_u32();
  std::uint64_t next_u64();
  /// Uniform in [0, 1), 53 bits.
  double uniform();
  /// Standard normal (Box-Muller).
  double normal();
  /// Uniform in [0, n) without bias; n > 0.
  std::uint64_t below(std::uint64_t n);

 private:
  RngKey key_;
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  int used_ = 4;
};

}  // namespace mobius
