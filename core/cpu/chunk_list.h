// One parallel loop over the elements of many tensors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/round.h"

namespace mobius {

/// Elements [begin, end) of one of several items.
struct Chunk {
  std::size_t item = 0;
  std::int64_t begin = 0, end = 0;
};

/// Numbers the chunks of all items consecutively. The chunks of an item have `grain` elements,
/// except the last; their borders do not depend on the other items.
class ChunkList {
 public:
  explicit ChunkList(std::int64_t grain) : grain_(grain) {}

  /// Adds an item; one without elements has no chunk.
  void add(std::int64_t n_elements) {
    first_.push_back(size());
    n_elements_.push_back(n_elements);
    size_ += ceil_div(n_elements, grain_);
  }
  std::int64_t size() const { return size_; }
  Chunk operator[](std::int64_t chunk) const {
    const auto item = static_cast<std::size_t>(
        std::upper_bound(first_.begin(), first_.end(), chunk) - first_.begin() - 1);
    const std::int64_t begin = (chunk - first_[item]) * grain_;
    return {item, begin, std::min(begin + grain_, n_elements_[item])};
  }

 private:
  std::int64_t grain_;
  std::int64_t size_ = 0;
  std::vector<std::int64_t> first_, n_elements_;  // of the items
};

}  // namespace mobius
