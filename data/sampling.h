// Exact sampling of distinct items, without touching the items that are not drawn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/rng.h"

namespace mobius {

/// Draws distinct integers below n; every ordered choice is equally likely. A draw does not change
/// the state of the sampler, so results depend only on the generator.
class UniformSampler {
 public:
  explicit UniformSampler(std::int32_t n);
  /// Fills `out` in O(out.size()). Throws Error if out.size() > n.
  void draw(Rng& rng, std::span<std::int32_t> out);

 private:
  std::vector<std::int32_t> pool_;       // 0 .. n-1 between draws
  std::vector<std::int32_t> exchanged_;  // scratch
};

/// Draws distinct indices one after another, each with probability proportional to its weight among
/// the remaining ones (like numpy's choice with p and replace=False). Weights are integers: sums
/// are exact, and draws are equal on every machine. A draw does not change the state of the
/// sampler.
class WeightedSampler {
 public:
  /// Weights must be positive and sum to less than 2^64.
  explicit WeightedSampler(std::span<const std::uint64_t> weights);
  /// Fills `out` in O(out.size() log n). Throws Error if out.size() exceeds the number of weights.
  void draw(Rng& rng, std::span<std::int32_t> out);

 private:
  void add_along_path(std::size_t leaf, std::uint64_t amount);

  std::size_t n_;
  std::size_t n_leaves_;             // the power of two >= n
  std::vector<std::uint64_t> sums_;  // binary tree: node i sums its children 2i and 2i + 1; root 1
  std::vector<std::uint64_t> chosen_;  // scratch: weights removed from the tree
};

}  // namespace mobius
