#include "data/permutation.h"

#include <algorithm>
#include <bit>

#include "core/error.h"

namespace mobius {

Permutation::Permutation(std::uint64_t n, RngKey key)
    : n_(n), key_(key), half_bits_(std::max(1, static_cast<int>(std::bit_width(n - 1) + 1) / 2)) {
  if (n == 0) throw Error("permutation: expected n > 0, got 0");
}

std::uint64_t Permutation::encipher(std::uint64_t value) const {
  constexpr std::uint64_t rounds = 6;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_, right = value & mask;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::uint64_t mixed = left ^ (philox(key_, round << 32 | right)[0] & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

std::uint64_t Permutation::at(std::uint64_t position) const {
  std::uint64_t value = position;
  do value = encipher(value);
  while (value >= n_);
  return value;
}

}  // namespace mobius
