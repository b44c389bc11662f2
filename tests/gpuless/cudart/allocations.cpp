#include "tests/gpuless/cudart/allocations.h"

#include <algorithm>
#include <cstdlib>

namespace mobius::gpuless {

PinnedMemory::~PinnedMemory() {
  if (owned) std::free(begin);
}

void Pool::take(std::uint64_t bytes) {
  used += bytes;
  used_high = std::max(used_high, used);
  reserved = std::max(reserved, used);
  reserved_high = std::max(reserved_high, reserved);
}

void Pool::trim(std::uint64_t keep) { reserved = std::max(used, std::min(reserved, keep)); }

void Allocations::add(std::uint64_t address, const Block& block) {
  blocks_[address] = block;
  in_use_.at(block.device) += block.bytes;
  if (block.from_pool) pools_.at(block.device).take(block.bytes);
}

Block* Allocations::find(std::uint64_t address) {
  const auto found = blocks_.find(address);
  return found == blocks_.end() ? nullptr : &found->second;
}

void Allocations::free(Block& block) {
  block.freed = true;
  in_use_.at(block.device) -= block.bytes;
  if (block.from_pool) pools_.at(block.device).give(block.bytes);
}

std::uint64_t Allocations::taken(int device) const {
  const Pool& pool = pools_.at(device);
  return in_use_.at(device) + pool.reserved - pool.used;
}

std::shared_ptr<PinnedMemory> Allocations::pin(void* begin, std::size_t bytes, bool owned) {
  auto memory = std::make_shared<PinnedMemory>(static_cast<char*>(begin), bytes, owned);
  pinned_[memory->begin] = memory;
  return memory;
}

std::shared_ptr<PinnedMemory> Allocations::pinned(const void* address) const {
  const auto* byte = static_cast<const char*>(address);
  auto after = pinned_.upper_bound(byte);
  if (after == pinned_.begin()) return nullptr;
  const auto& memory = std::prev(after)->second;
  return byte < memory->begin + memory->bytes ? memory : nullptr;
}

}  // namespace mobius::gpuless
