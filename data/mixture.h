// Chooses the component of a mixture for each training step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mobius {

/// A schedule that depends only on (seed, step). Steps follow the golden-ratio sequence: any N
/// consecutive steps hold each component in proportion to its weight up to O(log N) steps, whereas
/// the counts of independent draws deviate by O(sqrt N).
class MixtureSchedule {
 public:
  /// Weights must be positive and finite; they need not sum to 1.
  MixtureSchedule(std::span<const double> weights, std::uint64_t seed);
  /// Returns the index of the component of this step.
  int at(std::uint64_t step) const;

 private:
  std::vector<double> upper_;  // component c owns the points of [0, 1) below upper_[c]
  std::uint64_t start_;
};

}  // namespace mobius
