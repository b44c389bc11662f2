#include "data/mixture.h"

#include <algorithm>
#include <numeric>

#include "core/rng.h"

namespace mobius {

MixtureSchedule::MixtureSchedule(std::span<const double> weights, std::uint64_t seed)
    : upper_(weights.size()), start_(Rng({seed, stream_id("mixture")}).next_u64()) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  std::transform(weights.begin(), weights.end(), upper_.begin(),
                 [&](double weight) { return (sum += weight) / total; });
}

int MixtureSchedule::at(std::uint64_t step) const {
  constexpr std::uint64_t golden_ratio = 0x9E3779B97F4A7C15;  // its fraction, times 2^64
  const double point = static_cast<double>((start_ + step * golden_ratio) >> 11) * 0x1p-53;
  const auto owner = std::upper_bound(upper_.begin(), upper_.end() - 1, point);
  return static_cast<int>(owner - upper_.begin());
}

}  // namespace mobius
