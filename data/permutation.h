// A random order of n items that takes no memory.
#pragma once

#include <cstdint>

#include "core/rng.h"

namespace mobius {

/// A permutation of 0 .. n - 1 that depends on (n, key) alone. Every element is computed by itself,
/// so that any rank or thread finds its items of an epoch without shuffling all of them: a Feistel
/// network over the next power of four, walked along until it comes back below n (Black and Rogaway
/// 2002, "Ciphers with arbitrary finite domains").
class Permutation {
 public:
  /// Throws Error unless n > 0.
  Permutation(std::uint64_t n, RngKey key);
  /// The item at `position` < n.
  std::uint64_t at(std::uint64_t position) const;

 private:
  std::uint64_t encipher(std::uint64_t value) const;

  std::uint64_t n_;
  RngKey key_;
  int half_bits_;  // the network permutes numbers of 2 half_bits_ bits
};

}  // namespace mobius
