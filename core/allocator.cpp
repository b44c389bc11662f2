#include "core/allocator.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/round.h"

namespace mobius {
namespace {

constexpr std::size_t largest_small_block = 4096;
// Beyond this, rounding up to a size class could overflow.
constexpr std::size_t largest_request = std::numeric_limits<std::size_t>::max() / 2;

}  // namespace

OutOfMemory::OutOfMemory(std::size_t requested, const MemoryStats& stats, std::string_view place,
                         std::string_view advice)
    : Error("{}out of memory: asked for {} bytes with {} bytes in use and {} bytes cached{}", place,
            requested, stats.current, stats.cached, advice),
      requested_(requested),
      in_use_(stats.current),
      cached_(stats.cached) {}

std::size_t CachingAllocator::size_class(std::size_t bytes) {
  if (bytes <= largest_small_block) return round_up(std::max<std::size_t>(bytes, 1), alignment);
  return round_up(bytes, std::bit_floor(bytes - 1) / 8);
}

void* CachingAllocator::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > largest_request) throw OutOfMemory(bytes, stats_);
  const std::size_t capacity = size_class(bytes);
  void* block = take_cached(capacity);
  if (!block) block = system_allocate(capacity);
  if (!block) {
    const MemoryStats before = stats_;
    release_cache_locked();
    block = system_allocate(capacity);
    if (!block) throw OutOfMemory(bytes, before);
  }
  stats_.current += capacity;
  stats_.peak = std::max(stats_.peak, stats_.current);
  mark_usable(block, bytes, capacity);
  return block;
}

void CachingAllocator::deallocate(void* block, std::size_t bytes) noexcept {
  if (!block) return;
  const std::lock_guard lock(mutex_);
  const std::size_t capacity = size_class(bytes);
  mark_usable(block, 0, capacity);
  stats_.current -= capacity;
  try {
    free_blocks_[capacity].push_back(block);
    stats_.cached += capacity;
  } catch (...) {  // no memory to record the cached block
    mark_usable(block, capacity, capacity);
    system_deallocate(block, capacity);
  }
}

void CachingAllocator::release_cache() noexcept {
  const std::lock_guard lock(mutex_);
  release_cache_locked();
}

MemoryStats CachingAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void CachingAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak = stats_.current;
}

void CachingAllocator::mark_usable(void*, std::size_t, std::size_t) noexcept {}

void* CachingAllocator::take_cached(std::size_t capacity) {
  const auto found = free_blocks_.find(capacity);
  if (found == free_blocks_.end() || found->second.empty()) return nullptr;
  void* block = found->second.back();
  found->second.pop_back();
  stats_.cached -= capacity;
  return block;
}

void CachingAllocator::release_cache_locked() noexcept {
  for (auto& [capacity, blocks] : free_blocks_) {
    for (void* block : blocks) {
      mark_usable(block, capacity, capacity);
      system_deallocate(block, capacity);
    }
  }
  free_blocks_.clear();
  stats_.cached = 0;
}

}  // namespace mobius
