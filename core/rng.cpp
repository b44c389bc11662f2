#include "core/rng.h"

#include <cmath>
#include <numbers>

#include "core/error.h"

namespace mobius {
namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014, variant 13 of Stafford): a bijection of
// 64-bit words in which every input bit flips about half of the output bits.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// Absorbs one word. The increment is SplitMix64's golden ratio: it keeps the state away from mix's
// fixed point 0.
std::uint64_t absorb(std::uint64_t state, std::uint64_t word) {
  return mix(state + 0x9E3779B97F4A7C15ull + mix(word + 0x9E3779B97F4A7C15ull));
}

}  // namespace

// Absorbs the purpose eight bytes at a time, its length ("a" and "a\0" must differ), a and b. Each
// step is a bijection of the state for a fixed word and of the word for a fixed state.
std::uint64_t stream_id(std::string_view purpose, std::uint64_t a, std::uint64_t b) {
  std::uint64_t state = 0;
  for (std::size_t i = 0; i < purpose.size(); i += 8) {
    std::uint64_t word = 0;
    for (std::size_t j = i; j < purpose.size() && j < i + 8; ++j)
      word |= std::uint64_t{static_cast<unsigned char>(purpose[j])} << (8 * (j - i));
    state = absorb(state, word);
  }
  return absorb(absorb(absorb(state, purpose.size()), a), b);
}

std::uint32_t Rng::next_u32() {
  if (used_ == 4) {
    words_ = philox(key_, block_++);
    used_ = 0;
  }
  return words_[static_cast<std::size_t>(used_++)];
}

std::uint64_t Rng::next_u64() {
  const std::uint64_t low = next_u32();
  return low | std::uint64_t{next_u32()} << 32;
}

double Rng::uniform() { return static_cast<double>(next_u64() >> 11) * 0x1p-53; }

double Rng::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));  // 1 - [0, 1) is never 0
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

// Rejects values below 2^64 mod n, which would make small remainders more likely.
std::uint64_t Rng::below(std::uint64_t n) {
  if (n == 0) throw Error("Rng::below: expected n > 0, got 0");
  const std::uint64_t surplus = (0 - n) % n;
  std::uint64_t value = next_u64();
  while (value < surplus) value = next_u64();
  return value % n;
}

}  // namespace mobius
