// Memory of a device, with usage counters.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace mobius {

/// Counts bytes of blocks, after rounding up where an allocator rounds.
struct MemoryStats {
  std::size_t current = 0;  // in use
  std::size_t peak = 0;     // largest `current` since the start or the last reset_peak()
  std::size_t cached = 0;   // freed and kept for later requests
};

/// Memory ran out, even after the cache was returned to the system.
class OutOfMemory : public Error {
 public:
  /// `place` and `advice` surround the numbers in the message; they may be empty.
  OutOfMemory(std::size_t requested, const MemoryStats& stats, std::string_view place = "",
              std::string_view advice = "");

  std::size_t requested() const { return requested_; }
  std::size_t in_use() const { return in_use_; }
  std::size_t cached() const { return cached_; }

 private:
  std::size_t requested_, in_use_, cached_;
};

/// The memory of one device. Thread-safe.
class Allocator {
 public:
  Allocator() = default;
  virtual ~Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  /// 0 bytes is a valid request. Throws OutOfMemory.
  virtual void* allocate(std::size_t bytes) = 0;
  /// `bytes` is the size that was given to allocate().
  virtual void deallocate(void* block, std::size_t bytes) noexcept = 0;
  /// Returns every cached block to the system.
  virtual void release_cache() noexcept = 0;

  virtual MemoryStats stats() const = 0;
  virtual void reset_peak() = 0;
  /// Bytes that can still be allocated, where the memory is the device's own.
  virtual std::optional<std::size_t> available() const { return std::nullopt; }
};

/// Allocates 64-byte aligned blocks and caches freed ones: mapping large buffers anew at each
/// training step costs more than the arithmetic on them.
///
/// Block sizes are rounded up to size classes: multiples of 64 bytes up to 4 KiB, above that eight
/// classes between consecutive powers of two. Rounding wastes at most 1/8 of a large block, and
/// requests of similar size share blocks.
class CachingAllocator : public Allocator {
 public:
  static constexpr std::size_t alignment = 64;

  void* allocate(std::size_t bytes) final;
  void deallocate(void* block, std::size_t bytes) noexcept final;
  /// Derived classes must call it in their destructor.
  void release_cache() noexcept final;

  MemoryStats stats() const final;
  void reset_peak() final;

  /// Returns the size of the block that serves a request of `bytes`.
  static std::size_t size_class(std::size_t bytes);

 protected:
  /// `bytes` is a size class. Returns nullptr if memory is exhausted.
  virtual void* system_allocate(std::size_t bytes) = 0;
  virtual void system_deallocate(void* block, std::size_t bytes) noexcept = 0;

  /// Tells memory checkers that only the first `used` of the block's `capacity` bytes may be
  /// accessed from now on.
  virtual void mark_usable(void* block, std::size_t used, std::size_t capacity) noexcept;

 private:
  void* take_cached(std::size_t capacity);
  void release_cache_locked() noexcept;

  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_blocks_;  // size class -> blocks
  MemoryStats stats_;
};

}  // namespace mobius
