#include "tests/gpuless/ptx/device_memory.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <new>

#include "tests/gpuless/ptx/allocation.h"
#include "tests/gpuless/ptx/fault.h"
#include "tests/gpuless/ptx/launch_scope.h"

namespace mobius::ptx {

/// What is known of an index: its live allocation, or the size and label of the freed one.
struct DeviceMemory::Slot {
  std::atomic<Allocation*> live{nullptr};
  std::uint64_t freed_bytes = 0;
  std::uint32_t freed_label = 0;
};

/// Slots by index, in chunks that never move, so that look-ups need no lock.
struct DeviceMemory::Table {
  static constexpr std::uint64_t kChunk = 4096;
  static constexpr std::uint64_t kChunks = (std::uint64_t{1} << 27) / kChunk;

  std::array<std::atomic<Slot*>, kChunks> chunks{};
  std::atomic<std::uint64_t> next{kFirstAllocation};
  std::vector<std::string> labels{""};
  std::map<std::string, std::uint32_t, std::less<>> label_numbers;

  ~Table() {
    for (auto& chunk : chunks) {
      Slot* slots = chunk.load();
      if (slots == nullptr) continue;
      for (std::uint64_t i = 0; i < kChunk; ++i) delete slots[i].live.load();
      delete[] slots;
    }
  }
  Slot* slot(std::uint64_t index) const {
    if (index >= kChunk * kChunks) return nullptr;
    Slot* slots = chunks[index / kChunk].load(std::memory_order_acquire);
    return slots == nullptr ? nullptr : slots + index % kChunk;
  }
  Slot& new_slot(std::uint64_t index) {
    auto& chunk = chunks.at(index / kChunk);
    if (chunk.load() == nullptr) chunk.store(new Slot[kChunk], std::memory_order_release);
    return *slot(index);
  }
  std::uint32_t number_of(const std::string& label) {
    const auto [place, is_new] = label_numbers.try_emplace(label, labels.size());
    if (is_new) labels.push_back(label);
    return place->second;
  }
};

namespace {

constexpr unsigned char kNeverWritten = 0xCB;

std::string quoted(std::string_view label, std::uint64_t bytes) {
  std::string text = label.empty() ? "an allocation" : "'" + std::string(label) + "'";
  return text + " of " + std::to_string(bytes) + " bytes";
}

// Calls f(word, mask of its bytes) for the words that a range of bytes touches. Whole words come in
// a plain loop.
template <typename Function>
void for_words(std::uint64_t offset, std::uint64_t bytes, Function f) {
  const std::uint64_t end = offset + bytes;
  const auto mask_of = [&](std::uint64_t word) {
    std::uint32_t mask = kInitialised;
    if (word * 4 < offset) mask &= kInitialised << (offset - word * 4);
    if (word * 4 + 4 > end) mask &= kInitialised >> (word * 4 + 4 - end);
    return mask & kInitialised;
  };
  const std::uint64_t first = offset / 4;
  const std::uint64_t last = (end + 3) / 4;
  if (last - first <= 2) {
    for (std::uint64_t word = first; word < last; ++word) f(word, mask_of(word));
    return;
  }
  f(first, mask_of(first));
  for (std::uint64_t word = first + 1; word + 1 < last; ++word) f(word, kInitialised);
  f(last - 1, mask_of(last - 1));
}

// A host access takes the words out of the launch that wrote them: what comes later is ordered
// after it.
void mark_written(Allocation& allocation, std::uint64_t offset, std::uint64_t bytes) {
  for_words(offset, bytes, [&](std::uint64_t word, std::uint32_t mask) {
    allocation.writer[word] = (allocation.writer[word] & kInitialised) | mask;
  });
}

bool is_within(const Allocation* allocation, std::uint64_t address) {
  return allocation != nullptr && address >= allocation->base &&
         address - allocation->base < allocation->bytes;
}

bool is_written(const Allocation& allocation, std::uint64_t address, std::uint64_t bytes) {
  bool all = true;
  for_words(address - allocation.base, bytes, [&](std::uint64_t word, std::uint32_t mask) {
    all &= (allocation.writer[word] & mask) == mask;
  });
  return all;
}

// Which bytes were written is copied with them. The flags are taken first, as the ranges may
// overlap.
void copy_flags_of_words(const Allocation& source, std::uint64_t from, Allocation& target,
                         std::uint64_t to, std::uint64_t words) {
  const std::uint32_t* const begin = source.writer.get() + from;
  std::vector<std::uint32_t> flags(begin, begin + words);
  for (std::uint64_t i = 0; i < words; ++i) target.writer[to + i] = flags[i] & kInitialised;
}

void copy_flags_of_bytes(const Allocation& source, std::uint64_t from, Allocation& target,
                         std::uint64_t to, std::uint64_t bytes) {
  std::vector<bool> written(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i) {
    written[i] = (source.writer[(from + i) / 4] >> (from + i) % 4 & 1) != 0;
  }
  for_words(to, bytes, [&](std::uint64_t word, std::uint32_t mask) {
    std::uint32_t flags = target.writer[word] & kInitialised & ~mask;
    for (std::uint32_t byte = 0; byte < 4; ++byte) {
      if ((mask >> byte & 1) != 0 && written[word * 4 + byte - to]) flags |= 1u << byte;
    }
    target.writer[word] = flags;
  });
}

}  // namespace

DeviceMemory::DeviceMemory() : table_(std::make_unique<Table>()) {}
DeviceMemory::~DeviceMemory() = default;

std::uint64_t DeviceMemory::allocate(std::uint64_t bytes, std::string_view label) {
  if (bytes > kMaximumBytes) throw std::bad_alloc();
  auto allocation = std::make_unique<Allocation>();
  allocation->bytes = bytes;
  allocation->label = label;
  // Copies of whole words may touch up to three bytes past the end.
  allocation->data.reset(new unsigned char[allocation->words() * 4]);
  std::memset(allocation->data.get(), kNeverWritten, allocation->words() * 4);
  allocation->writer = std::make_unique<std::uint32_t[]>(allocation->words());
  allocation->reader = std::make_unique<std::uint32_t[]>(allocation->words());

  const std::lock_guard lock(growth_);
  const std::uint64_t index = table_->next.load();
  if (index >= Table::kChunk * Table::kChunks) throw std::bad_alloc();
  allocation->base = address_at(index) + 256;
  const std::uint64_t address = allocation->base;
  table_->new_slot(index).live.store(allocation.release(), std::memory_order_release);
  table_->next.store(index + 1);
  bytes_in_use_ += bytes;
  ++live_;
  return address;
}

void DeviceMemory::free(std::uint64_t address) {
  if (address == 0) return;
  const std::unique_lock usage(usage_);
  Allocation* allocation = find(address);
  if (allocation == nullptr || allocation->base != address) {
    throw Fault("free of an address that no live allocation starts at: " + describe(address));
  }
  const std::lock_guard lock(growth_);
  Slot& slot = *table_->slot(index_of(address));
  slot.freed_bytes = allocation->bytes;
  slot.freed_label = table_->number_of(allocation->label);
  slot.live.store(nullptr, std::memory_order_release);
  bytes_in_use_ -= allocation->bytes;
  --live_;
  delete allocation;
}

void DeviceMemory::copy_from_host(std::uint64_t to, const void* from, std::uint64_t bytes) {
  if (bytes == 0) return;
  std::memcpy(writable(to, bytes, "copy to the device"), from, bytes);
}

void DeviceMemory::copy_to_host(void* to, std::uint64_t from, std::uint64_t bytes) const {
  if (bytes == 0) return;
  const std::shared_lock usage(usage_);
  const Allocation& allocation = live_range(from, bytes, "copy to the host");
  std::memcpy(to, allocation.data.get() + (from - allocation.base), bytes);
}

void DeviceMemory::copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  if (bytes == 0) return;
  const std::shared_lock usage(usage_);
  const Allocation& source = live_range(from, bytes, "copy from the device");
  Allocation& target = live_range(to, bytes, "copy to the device");
  const std::uint64_t source_offset = from - source.base;
  const std::uint64_t target_offset = to - target.base;
  const bool is_aligned = (source_offset | target_offset | bytes) % 4 == 0;
  if (is_aligned) {
    copy_flags_of_words(source, source_offset / 4, target, target_offset / 4, bytes / 4);
  } else {
    copy_flags_of_bytes(source, source_offset, target, target_offset, bytes);
  }
  std::memmove(target.data.get() + target_offset, source.data.get() + source_offset, bytes);
}

void DeviceMemory::fill(std::uint64_t address, unsigned char value, std::uint64_t bytes) {
  if (bytes == 0) return;
  std::memset(writable(address, bytes, "fill"), value, bytes);
}

const void* DeviceMemory::readable(std::uint64_t address, std::uint64_t bytes,
                                   std::string_view reader) const {
  const std::shared_lock usage(usage_);
  const Allocation& allocation = live_range(address, bytes, reader);
  if (!is_written(allocation, address, bytes)) {
    throw Fault(std::string(reader) + ": reads bytes that were never written, within " +
                std::to_string(bytes) + " bytes at " + describe(address));
  }
  return allocation.data.get() + (address - allocation.base);
}

void* DeviceMemory::writable(std::uint64_t address, std::uint64_t bytes, std::string_view writer) {
  const std::shared_lock usage(usage_);
  Allocation& allocation = live_range(address, bytes, writer);
  mark_written(allocation, address - allocation.base, bytes);
  return allocation.data.get() + (address - allocation.base);
}

bool DeviceMemory::is_live(std::uint64_t address) const {
  const std::shared_lock usage(usage_);
  return is_within(find(address), address);
}

DeviceMemory::Range DeviceMemory::range_of(std::uint64_t address) const {
  const std::shared_lock usage(usage_);
  const Allocation& allocation = live_range(address, 0, "look-up");
  return {allocation.base, allocation.bytes};
}

std::string DeviceMemory::describe(std::uint64_t address) const {
  if (address == 0) return "address 0";
  if ((address & kDeviceBit) == 0) return "a host address";
  const std::uint64_t index = index_of(address);
  if (is_in_window(address, Window::shared)) return "shared memory";
  if (is_in_window(address, Window::local)) return "local memory";
  const Slot* slot = table_->slot(index);
  if (index < kFirstAllocation || index >= table_->next || slot == nullptr) return "no allocation";
  const std::uint64_t base = address_at(index) + 256;
  const Allocation* live = slot->live.load(std::memory_order_acquire);
  const std::uint64_t bytes = live != nullptr ? live->bytes : slot->freed_bytes;
  const std::string name =
      quoted(live != nullptr ? live->label : table_->labels[slot->freed_label], bytes);
  std::string place;
  if (address < base) {
    place = std::to_string(base - address) + " bytes before the start of ";
  } else if (address < base + bytes) {
    place = "byte " + std::to_string(address - base) + " of ";
  } else {
    place = std::to_string(address - base - bytes) + " bytes past the end of ";
  }
  return place + name + (live != nullptr ? "" : ", which was freed");
}

std::uint32_t DeviceMemory::take_tags(std::uint32_t count) {
  const std::lock_guard lock(growth_);
  if (next_tag_ + count > kTags) forget_tags();
  return next_tag_.fetch_add(count);
}

// A launch that runs at this time on another thread loses sight of races with its own past, and
// accuses nobody.
void DeviceMemory::forget_tags() {
  for (std::uint64_t index = kFirstAllocation; index < table_->next; ++index) {
    Allocation* const allocation = table_->slot(index)->live;
    if (allocation == nullptr) continue;
    for (std::uint64_t word = 0; word < allocation->words(); ++word) {
      allocation->writer[word] &= kInitialised;
      allocation->reader[word] = 0;
    }
  }
  next_tag_ = 1;
}

LaunchScope::LaunchScope(DeviceMemory& memory, std::uint64_t blocks) : usage_(memory.usage_) {
  // Blocks of an enormous grid share tags.
  tags_.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, kTags / 2));
  tags_.several = memory.take_tags(tags_.count + 1);
}

Allocation* DeviceMemory::find(std::uint64_t address) const {
  if ((address & kDeviceBit) == 0) return nullptr;
  const Slot* slot = table_->slot(index_of(address));
  return slot == nullptr ? nullptr : slot->live.load(std::memory_order_acquire);
}

Allocation& DeviceMemory::live_range(std::uint64_t address, std::uint64_t bytes,
                                     std::string_view what) const {
  Allocation* allocation = find(address);
  if (allocation == nullptr || address < allocation->base || bytes > allocation->bytes ||
      address - allocation->base > allocation->bytes - bytes) {
    const bool starts_inside = is_within(allocation, address);
    throw Fault(std::string(what) + ": " + std::to_string(bytes) + " bytes at " +
                describe(address) + (starts_inside ? " reach past its end" : ""));
  }
  return *allocation;
}

}  // namespace mobius::ptx
