#include "data/sampling.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace mobius {

UniformSampler::UniformSampler(std::int32_t n) : pool_(static_cast<std::size_t>(n)) {
  std::iota(pool_.begin(), pool_.end(), 0);
}

// Runs the first steps of a Fisher-Yates shuffle and undoes them afterwards.
void UniformSampler::draw(Rng& rng, std::span<std::int32_t> out) {
  if (out.size() > pool_.size())
    throw Error("UniformSampler: {} distinct items requested, but there are only {}", out.size(),
                pool_.size());
  exchanged_.resize(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t j = i + rng.below(pool_.size() - i);
    std::swap(pool_[i], pool_[j]);
    out[i] = pool_[i];
    exchanged_[i] = static_cast<std::int32_t>(j);
  }
  for (std::size_t i = out.size(); i-- > 0;)
    std::swap(pool_[i], pool_[static_cast<std::size_t>(exchanged_[i])]);
}

WeightedSampler::WeightedSampler(std::span<const std::uint64_t> weights)
    : n_(weights.size()), n_leaves_(std::bit_ceil(weights.size())), sums_(2 * n_leaves_) {
  std::copy(weights.begin(), weights.end(), sums_.begin() + static_cast<std::ptrdiff_t>(n_leaves_));
  for (std::size_t node = n_leaves_; node-- > 1;)
    sums_[node] = sums_[2 * node] + sums_[2 * node + 1];
}

void WeightedSampler::draw(Rng& rng, std::span<std::int32_t> out) {
  if (out.size() > n_)
    throw Error("WeightedSampler: {} distinct items requested, but there are only {}", out.size(),
                n_);
  chosen_.resize(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint64_t left = rng.below(sums_[1]);
    std::size_t node = 1;
    while (node < n_leaves_) {
      node *= 2;
      if (left >= sums_[node]) left -= sums_[node++];
    }
    out[i] = static_cast<std::int32_t>(node - n_leaves_);
    chosen_[i] = sums_[node];
    add_along_path(node, 0 - chosen_[i]);  // subtracts, modulo 2^64
  }
  for (std::size_t i = 0; i < out.size(); ++i)
    add_along_path(n_leaves_ + static_cast<std::size_t>(out[i]), chosen_[i]);
}

void WeightedSampler::add_along_path(std::size_t leaf, std::uint64_t amount) {
  for (std::size_t node = leaf; node > 0; node /= 2) sums_[node] += amount;
}

}  // namespace mobius
