// One kernel over the elements of many arrays, which come with its arguments: no table in device
// memory has to be written before the launch.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "core/round.h"

namespace mobius::cuda {

/// Elements [begin, end) of item number `item` of a table.
struct ItemChunk {
  int item;
  std::int64_t begin, end;
};

/// Some items, each of `n` elements, and the number of the first chunk of each. Chunks have `grain`
/// elements, except an item's last; their borders do not depend on the other items.
template <class Item>
struct ChunkTable {
  static constexpr int most = 3800 / static_cast<int>(sizeof(Item) + sizeof(std::int32_t));

  int n_items = 0;
  std::int32_t first[most + 1]{};
  std::int64_t grain;
  Item items[most]{};

  explicit ChunkTable(std::int64_t elements) : grain(elements) {}

  bool is_full() const { return n_items == most; }
  std::int32_t n_chunks() const { return first[n_items]; }
  void add(const Item& item) {
    items[n_items] = item;
    first[n_items + 1] = first[n_items] + static_cast<std::int32_t>(ceil_div(item.n, grain));
    ++n_items;
  }

  __device__ ItemChunk operator[](std::int32_t chunk) const {
    int low = 0, high = n_items;  // the chunk is one of the items [low, high)
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first[middle] <= chunk ? low : high) = middle;
    }
    const std::int64_t begin = (chunk - first[low]) * grain;
    return {low, begin, min(begin + grain, items[low].n)};
  }
};
static_assert(sizeof(ChunkTable<std::int64_t>) < 4096 - 128, "a kernel takes 4 KiB of arguments");

/// Calls fn(table) for as many tables as the items fill.
template <class Item, class Fn>
void for_chunk_tables(const std::vector<Item>& items, std::int64_t grain, const Fn& fn) {
  ChunkTable<Item> table(grain);
  for (const Item& item : items) {
    table.add(item);
    if (!table.is_full()) continue;
    fn(table);
    table = ChunkTable<Item>(grain);
  }
  if (table.n_items > 0) fn(table);
}

}  // namespace mobius::cuda
