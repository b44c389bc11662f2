// Which component of a mixture each training step draws from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mobius {

/// A schedule that depends on (seed, step) alone. Steps follow the golden-ratio sequence, so every
/// stretch of N steps holds each component in proportion to its weight, up to O(log N) steps:
/// closer than independent draws, whose counts stray by O(sqrt N).
class MixtureSchedule {
 public:
  /// Weights must be positive and finite; they need not sum to 1.
  MixtureSchedule(std::span<const double> weights, std::uint64_t seed);
  /// Index of the component of this step.
  int at(std::uint64_t step) const;

 private:
  std::vector<double> upper_;  // component c owns the points of [0, 1) below upper_[c]
  std::uint64_t start_;
};

}  // namespace mobius
