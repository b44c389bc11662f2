// Random choices of distinct items, exact and without touching the items that are not chosen.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/rng.h"

namespace mobius {

/// Draws distinct integers below n, every ordered choice being equally likely. Each draw leaves the
/// sampler as it was, so what comes depends on the generator alone.
class UniformSampler {
 public:
  explicit UniformSampler(std::int32_t n);
  /// Fills `out` in O(out.size()); throws Error when it is larger than n.
  void draw(Rng& rng, std::span<std::int32_t> out);

 private:
  std::vector<std::int32_t> pool_;       // 0 .. n-1 between draws
  std::vector<std::int32_t> exchanged_;  // scratch
};

/// Draws distinct indices one after another, each with probability proportional to its weight among
/// those left (as numpy's choice with p and replace=False). Weights are integers, so that sums are
/// exact and the same draws come on every machine. Each draw leaves the sampler as it was.
class WeightedSampler {
 public:
  /// Weights must be positive and sum to less than 2^64.
  explicit WeightedSampler(std::span<const std::uint64_t> weights);
  /// Fills `out` in O(out.size() log n); throws Error when it is larger than the number of weights.
  void draw(Rng& rng, std::span<std::int32_t> out);

 private:
  void add_along_path(std::size_t leaf, std::uint64_t amount);

  std::size_t n_;
  std::size_t n_leaves_;             // the power of two >= n
  std::vector<std::uint64_t> sums_;  // binary tree: node i sums its children 2i and 2i + 1; root 1
  std::vector<std::uint64_t> chosen_;  // scratch: weights taken out of the tree
};

}  // namespace mobius
