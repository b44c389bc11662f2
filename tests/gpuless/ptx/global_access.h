#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/gpuless/ptx/allocation.h"
#include "tests/gpuless/ptx/device_memory.h"
#include "tests/gpuless/ptx/lanes.h"

namespace mobius::ptx {

/// The tags by which shadow memory knows the blocks of a launch: `several` for more than one block,
/// and behind it one for each block. Tags below belong to launches that have ended.
struct LaunchTags {
  std::uint32_t several = 0;
  std::uint32_t count = 1;
  std::uint32_t of_block(std::uint64_t number) const {
    return several + 1 + static_cast<std::uint32_t>(number % count);
  }
};

/// Which blocks released what they wrote at which address: by a fence, then an atomic. A block that
/// later performs an atomic there is ordered behind them.
class LaunchOrder {
 public:
  struct Releases {
    std::unordered_map<std::uint32_t, std::uint32_t> place_of_tag;
  };
  /// Called at an atomic: with `releases`, notes the block; returns what released there before, and
  /// how many.
  std::pair<const Releases*, std::uint32_t> meet(std::uint64_t address, std::uint32_t tag,
                                                 bool releases);
  bool has_released(const Releases& list, std::uint32_t count, std::uint32_t tag);

 private:
  std::mutex mutex_;
  std::atomic<bool> is_used_{false};
  std::map<std::uint64_t, Releases> releases_;
};

/// How an access is wrong. `other` is a block's tag for races.
struct AccessFault {
  enum class Kind {
    none,
    unmapped,
    uninitialised,
    read_after_write,
    write_after_write,
    write_after_read
  } kind = Kind::none;
  std::uint64_t address = 0;
  std::uint32_t other = 0;
};

enum class Access { read, write, atomic };

/// Global memory as one block sees it: bounds, initialisation and races of every access are
/// checked.
class GlobalAccess {
 public:
  GlobalAccess(DeviceMemory& memory, LaunchTags& tags, LaunchOrder& order)
      : memory_(&memory), tags_(&tags), order_(&order) {}

  void begin_block(std::uint64_t number);

  /// Checks an access of consecutive bytes and notes it in the shadow. Returns the bytes, or null
  /// with `fault` set.
  template <Access kAccess>
  unsigned char* access(std::uint64_t address, std::uint32_t bytes, AccessFault& fault);

  /// A fence of device scope.
  void fence() { is_fenced_ = true; }
  /// What an atomic at the address holds, as blocks run at once.
  std::mutex& atomic_lock(std::uint64_t address) {
    return memory_->atomic_locks_[address / 8 % memory_->atomic_locks_.size()];
  }
  /// Called before an atomic at the address.
  void order_at(std::uint64_t address);

 private:
  template <Access kAccess>
  bool touch_words(Allocation& allocation, std::uint64_t first, std::uint64_t count);
  template <Access kAccess>
  bool touch(Allocation& allocation, std::uint64_t word, std::uint32_t mask, AccessFault& fault);
  bool is_ordered(std::uint32_t tag);
  Allocation* find(std::uint64_t address) const { return memory_->find(address); }

  DeviceMemory* memory_;
  const LaunchTags* tags_;
  LaunchOrder* order_;
  std::uint32_t several_ = 0;
  std::uint32_t mine_ = 0;
  bool is_fenced_ = false;  // since the last write of the block
  std::vector<std::pair<const LaunchOrder::Releases*, std::uint32_t>> acquired_;
};

}  // namespace mobius::ptx
