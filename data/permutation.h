// A random permutation in O(1) memory.
#pragma once

#include <cstdint>

#include "core/rng.h"

namespace mobius {

/// A permutation of 0 .. n - 1 that depends only on (n, key). Each element is computed on its own,
/// so a rank or thread finds its items of an epoch without shuffling all of them. The method is a
/// Feistel network over the next power of four, iterated until the result is below n (Black and
/// Rogaway 2002, "Ciphers with arbitrary finite domains").
class Permutation {
 public:
  /// Throws Error unless n > 0.
  Permutation(std::uint64_t n, RngKey key);
  /// Returns the item at `position` < n.
  std::uint64_t at(std::uint64_t position) const;

 private:
  std::uint64_t encipher(std::uint64_t value) const;

  std::uint64_t n_;
  RngKey key_;
  int half_bits_;  // the network permutes numbers of 2 half_bits_ bits
};

}  // namespace mobius
