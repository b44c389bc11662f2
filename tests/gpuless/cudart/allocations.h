// Which memory of devices and of the host the program holds. All in the order of the calls: what
// was freed on a stream is free for the next allocation, though its bytes go only when the stream
// gets there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace mobius::gpuless {

struct Block {
  std::size_t bytes;
  int device;
  bool from_pool;
  bool freed;
};

/// Page-locked memory of the host. Copies hold on to it, so that one that runs after the memory was
/// freed is noticed instead of reading what came after.
struct PinnedMemory {
  char* begin;
  std::size_t bytes;
  bool freed = false;
  bool owned;  // allocated, and not only registered

  PinnedMemory(char* begin_of_memory, std::size_t size, bool is_owned)
      : begin(begin_of_memory), bytes(size), owned(is_owned) {}
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
};

/// The memory that cudaMallocAsync takes from, of one device.
struct Pool {
  std::uint64_t release_threshold = 0;
  std::uint64_t used = 0;
  std::uint64_t used_high = 0;
  std::uint64_t reserved = 0;
  std::uint64_t reserved_high = 0;

  void take(std::uint64_t bytes);
  void give(std::uint64_t bytes) { used -= bytes; }
  void trim(std::uint64_t keep);
};

class Allocations {
 public:
  explicit Allocations(int devices) : in_use_(devices), pools_(devices) {}

  void add(std::uint64_t address, const Block& block);
  /// The block that begins at the address, live or freed; null if there never was one.
  Block* find(std::uint64_t address);
  void free(Block& block);

  /// What the program holds on a device, and what pools keep besides.
  std::uint64_t in_use(int device) const { return in_use_.at(device); }
  std::uint64_t taken(int device) const;
  Pool& pool(int device) { return pools_.at(device); }

  std::shared_ptr<PinnedMemory> pin(void* begin, std::size_t bytes, bool owned);
  /// The pinned memory in which an address lies; null for other memory of the host.
  std::shared_ptr<PinnedMemory> pinned(const void* address) const;
  void unpin(const PinnedMemory& memory) { pinned_.erase(memory.begin); }

 private:
  std::map<std::uint64_t, Block> blocks_;
  std::vector<std::uint64_t> in_use_;
  std::vector<Pool> pools_;
  std::map<const char*, std::shared_ptr<PinnedMemory>> pinned_;
};

}  // namespace mobius::gpuless
