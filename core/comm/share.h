// Dividing indices among ranks.
#pragma once

#include <cstdint>

namespace mobius {

/// Indices [begin, end).
struct Share {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
};

/// Returns part `index` of `count` of [0, n). The parts are consecutive and disjoint, cover [0, n),
/// and differ in size by at most one.
inline Share share_of(std::int64_t n, std::int64_t index, std::int64_t count) {
  return {n * index / count, n * (index + 1) / count};
}

}  // namespace mobius
