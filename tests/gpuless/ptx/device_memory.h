#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

namespace mobius::ptx {

struct Allocation;

/// The global memory of the device. Every allocation has an address range of its own, far from all
/// others, which is never given out again: an access beyond an allocation, or to one that was
/// freed, is always seen.
///
/// Functions throw a Fault for ranges that are not inside one live allocation. All are safe to call
/// from several threads. Memory is not freed while a kernel runs: free() waits for launches to end.
class DeviceMemory {
 public:
  DeviceMemory();
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// The bit that every device address has and no host address, so that the host faults on device
  /// pointers.
  static constexpr std::uint64_t kDeviceBit = std::uint64_t{1} << 62;
  /// The largest single allocation: 16 GiB less a margin.
  static constexpr std::uint64_t kMaximumBytes = (std::uint64_t{1} << 34) - 4096;

  /// Returns the address, a multiple of 256, of `bytes` bytes that count as never written. The
  /// label names them in messages. Zero bytes take an address too. Throws std::bad_alloc beyond
  /// kMaximumBytes.
  std::uint64_t allocate(std::uint64_t bytes, std::string_view label = {});

  /// Frees what allocate() returned. Address 0 is ignored.
  void free(std::uint64_t address);

  void copy_from_host(std::uint64_t to, const void* from, std::uint64_t bytes);
  /// Bytes that were never written arrive as a pattern of 0xCB.
  void copy_to_host(void* to, std::uint64_t from, std::uint64_t bytes) const;
  /// Copies on the device; never-written bytes stay so in the destination. Ranges may overlap.
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
  void fill(std::uint64_t address, unsigned char value, std::uint64_t bytes);

  /// Direct access for library calls that read or write device memory on their own, such as a
  /// matrix product. The pointers hold until the allocation is freed. `readable` throws if a byte
  /// was never written; `writable` declares all bytes written.
  const void* readable(std::uint64_t address, std::uint64_t bytes, std::string_view reader) const;
  void* writable(std::uint64_t address, std::uint64_t bytes, std::string_view writer);

  /// Whether an address lies in a live allocation.
  bool is_live(std::uint64_t address) const;
  /// The address and size of the live allocation that holds the address. Throws a Fault if none
  /// does.
  struct Range {
    std::uint64_t address;
    std::uint64_t bytes;
  };
  Range range_of(std::uint64_t address) const;
  /// Says in words where an address points: "byte 12 of 'weights' (64 bytes)", "4 bytes past the
  /// end of ...".
  std::string describe(std::uint64_t address) const;

  std::uint64_t bytes_in_use() const { return bytes_in_use_.load(std::memory_order_relaxed); }
  std::uint64_t live_allocations() const { return live_.load(std::memory_order_relaxed); }

 private:
  friend class GlobalAccess;
  friend class LaunchScope;

  struct Slot;
  struct Table;

  Allocation& live_range(std::uint64_t address, std::uint64_t bytes, std::string_view what) const;
  Allocation* find(std::uint64_t address) const;
  /// Takes tags for the blocks of a launch, and forgets all older ones when they run out.
  std::uint32_t take_tags(std::uint32_t count);
  void forget_tags();

  std::unique_ptr<Table> table_;
  mutable std::shared_mutex usage_;  // held shared by launches and copies, alone by free()
  std::mutex growth_;                // guards the table's growth
  std::array<std::mutex, 64> atomic_locks_;
  std::atomic<std::uint32_t> next_tag_{1};
  std::atomic<std::uint64_t> bytes_in_use_{0};
  std::atomic<std::uint64_t> live_{0};
};

}  // namespace mobius::ptx
