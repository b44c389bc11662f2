// Caching memory allocator with readable counters.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "core/error.h"

namespace mobius {

/// Bytes of blocks, after rounding up to the size class.
struct MemoryStats {
  std::size_t current = 0;  // handed out and not given back
  std::size_t peak = 0;     // largest `current` since the start or the last reset_peak()
  std::size_t cached = 0;   // freed, kept for the next request
};

/// There is not enough memory, even with the cache given back to the system.
class OutOfMemory : public Error {
 public:
  OutOfMemory(std::size_t requested, const MemoryStats& stats);

  std::size_t requested() const { return requested_; }
  std::size_t in_use() const { return in_use_; }
  std::size_t cached() const { return cached_; }

 private:
  std::size_t requested_, in_use_, cached_;
};

/// Hands out 64-byte aligned blocks and keeps freed ones: mapping large buffers anew each
/// training step costs more than the arithmetic on them. Thread-safe.
///
/// Blocks come in size classes, multiples of 64 bytes up to 4 KiB and eight classes between one
/// power of two and the next above it: at most 1/8 of a large block is lost to rounding, and
/// requests of nearly the same size share blocks.
class Allocator {
 public:
  static constexpr std::size_t alignment = 64;

  Allocator() = default;
  virtual ~Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  /// Throws OutOfMemory saying what was asked for and what is in use. 0 bytes is a valid request.
  void* allocate(std::size_t bytes);
  /// `bytes` as given to allocate().
  void deallocate(void* block, std::size_t bytes) noexcept;
  /// Returns every cached block to the system. Derived classes call it in their destructor.
  void release_cache() noexcept;

  MemoryStats stats() const;
  void reset_peak();

  /// The size of the block that serves a request of `bytes`.
  static std::size_t size_class(std::size_t bytes);

 protected:
  /// `bytes` is a size class. nullptr when there is no more memory.
  virtual void* system_allocate(std::size_t bytes) = 0;
  virtual void system_deallocate(void* block, std::size_t bytes) noexcept = 0;

  /// For memory checkers: the first `used` bytes of the block may be touched from now on, the
  /// rest of its `capacity` may not.
  virtual void mark_usable(void* block, std::size_t used, std::size_t capacity) noexcept;

 private:
  void* take_cached(std::size_t capacity);
  void release_cache_locked() noexcept;

  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_blocks_;  // size class -> blocks
  MemoryStats stats_;
};

}  // namespace mobius
