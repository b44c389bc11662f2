#include "tests/gpuless/ptx/global_access.h"

#include <algorithm>

namespace mobius::ptx {

std::pair<const LaunchOrder::Releases*, std::uint32_t> LaunchOrder::meet(std::uint64_t address,
                                                                         std::uint32_t tag,
                                                                         bool releases) {
  if (!releases && !is_used_.load(std::memory_order_acquire)) return {nullptr, 0};
  const std::lock_guard lock(mutex_);
  is_used_.store(true, std::memory_order_release);
  Releases& list = releases_[address];
  const auto before = static_cast<std::uint32_t>(list.place_of_tag.size());
  if (releases) list.place_of_tag.try_emplace(tag, before);
  return {&list, before};
}

bool LaunchOrder::has_released(const Releases& list, std::uint32_t count, std::uint32_t tag) {
  const std::lock_guard lock(mutex_);
  const auto place = list.place_of_tag.find(tag);
  return place != list.place_of_tag.end() && place->second < count;
}

void GlobalAccess::begin_block(std::uint64_t number) {
  several_ = tags_->several;
  mine_ = tags_->of_block(number);
  is_fenced_ = false;
  acquired_.clear();
}

void GlobalAccess::order_at(std::uint64_t address) {
  const auto met = order_->meet(address, mine_, is_fenced_);
  if (met.second == 0) return;
  for (auto& known : acquired_) {
    if (known.first == met.first) {
      known.second = met.second;
      return;
    }
  }
  acquired_.push_back(met);
}

// Words that several blocks wrote, by atomics or bytes, have no single writer: any order counts for
// them.
bool GlobalAccess::is_ordered(std::uint32_t tag) {
  return std::any_of(acquired_.begin(), acquired_.end(), [&](const auto& known) {
    return tag == several_ || order_->has_released(*known.first, known.second, tag);
  });
}

// The common case, whole words which no other block touched in this launch, in loops that
// vectorise. Returns whether all was so; if not, nothing was noted.
template <Access kAccess>
bool GlobalAccess::touch_words(Allocation& allocation, std::uint64_t first, std::uint64_t count) {
  std::uint32_t* const writer = allocation.writer.get() + first;
  std::uint32_t* const reader = allocation.reader.get() + first;
  const std::uint32_t mine = mine_ << kTagShift;
  const std::uint32_t launch = several_ << kTagShift;
  const std::uint32_t low = (1u << kTagShift) - 1;
  std::uint32_t bad = 0;
  if constexpr (kAccess == Access::read) {
    std::uint32_t is_new = 0;
    const std::uint32_t read_by_me = mine | kInitialised << kTouchedShift;
    const std::uint32_t read_by_several = launch | kInitialised << kTouchedShift;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint32_t w = writer[i];
      const std::uint32_t r = reader[i];
      bad |=
          static_cast<std::uint32_t>(w >= launch) & static_cast<std::uint32_t>((w & ~low) != mine);
      bad |= ~w & kInitialised;
      is_new |= static_cast<std::uint32_t>(r != read_by_me) &
                static_cast<std::uint32_t>(r != read_by_several);
    }
    if (bad != 0) return false;
    if (is_new != 0) {
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint32_t r = reader[i];
        const bool is_others = r >= launch && (r & ~low) != mine;
        reader[i] = is_others ? read_by_several : read_by_me;
      }
    }
  } else {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint32_t w = writer[i];
      const std::uint32_t r = reader[i];
      bad |=
          static_cast<std::uint32_t>(w >= launch) & static_cast<std::uint32_t>((w & ~low) != mine);
      bad |=
          static_cast<std::uint32_t>(r >= launch) & static_cast<std::uint32_t>((r & ~low) != mine);
    }
    if (bad != 0) return false;
    const std::uint32_t written = mine | kInitialised << kTouchedShift | kInitialised;
    for (std::uint64_t i = 0; i < count; ++i) writer[i] = written;
  }
  return true;
}

// Checks and notes one word, of which the mask names bytes.
template <Access kAccess>
bool GlobalAccess::touch(Allocation& allocation, std::uint64_t word, std::uint32_t mask,
                         AccessFault& fault) {
  std::uint32_t& w = allocation.writer[word];
  std::uint32_t& r = allocation.reader[word];
  const std::uint32_t touched = mask << kTouchedShift;
  const std::uint32_t writer = w >> kTagShift;
  const std::uint32_t reader = r >> kTagShift;
  const auto fail = [&](AccessFault::Kind kind, std::uint32_t other) {
    fault = {kind, allocation.base + word * 4, other};
    return false;
  };
  if (kAccess != Access::write && (w & mask) != mask)
    return fail(AccessFault::Kind::uninitialised, 0);

  const bool is_whole = mask == kInitialised;
  const bool by_others = writer >= several_ && writer != mine_;
  const bool both_atomic = kAccess == Access::atomic && (w & kAtomicBit) != 0;
  // Bytes that several blocks wrote next to each other cannot be told apart.
  const bool is_mixed = writer == several_ && !is_whole && (w & kAtomicBit) == 0;
  if (by_others && (w & touched) != 0 && !both_atomic && !is_mixed && !is_ordered(writer)) {
    return fail(kAccess == Access::read ? AccessFault::Kind::read_after_write
                                        : AccessFault::Kind::write_after_write,
                writer);
  }
  const bool read_by_others = reader >= several_ && reader != mine_;
  if constexpr (kAccess == Access::read) {
    if (reader < several_) {
      r = mine_ << kTagShift | touched;
    } else {
      r = (read_by_others ? several_ : mine_) << kTagShift | (r & (kInitialised << kTouchedShift)) |
          touched;
    }
    return true;
  }
  if (read_by_others && (r & touched) != 0 && !(reader == several_ && !is_whole) &&
      !is_ordered(reader)) {
    return fail(AccessFault::Kind::write_after_read, reader);
  }
  const std::uint32_t before = writer >= several_ ? w & (kInitialised << kTouchedShift) : 0;
  std::uint32_t atomic = 0;
  if (kAccess == Access::atomic &&
      (writer < several_ || (w & kAtomicBit) != 0 || is_ordered(writer)))
    atomic = kAtomicBit;
  const std::uint32_t tag = by_others && (both_atomic || (w & touched) == 0) ? several_ : mine_;
  w = tag << kTagShift | atomic | before | touched | (w & kInitialised) | mask;
  return true;
}

template <Access kAccess>
unsigned char* GlobalAccess::access(std::uint64_t address, std::uint32_t bytes,
                                    AccessFault& fault) {
  Allocation* const allocation = find(address);
  if (allocation == nullptr || address < allocation->base ||
      address - allocation->base + bytes > allocation->bytes) {
    fault = {AccessFault::Kind::unmapped, address, 0};
    return nullptr;
  }
  const std::uint64_t offset = address - allocation->base;
  if (kAccess != Access::read) is_fenced_ = is_fenced_ && kAccess == Access::atomic;
  unsigned char* const data = allocation->data.get() + offset;
  if (kAccess != Access::atomic && offset % 4 == 0 && bytes % 4 == 0 &&
      touch_words<kAccess>(*allocation, offset / 4, bytes / 4)) {
    return data;
  }
  const std::uint64_t end = offset + bytes;
  for (std::uint64_t word = offset / 4; word * 4 < end; ++word) {
    std::uint32_t mask = kInitialised;
    if (word * 4 < offset) mask &= kInitialised << (offset - word * 4);
    if (word * 4 + 4 > end) mask &= kInitialised >> (word * 4 + 4 - end);
    if (!touch<kAccess>(*allocation, word, mask & kInitialised, fault)) return nullptr;
  }
  return data;
}

template unsigned char* GlobalAccess::access<Access::read>(std::uint64_t, std::uint32_t,
                                                           AccessFault&);
template unsigned char* GlobalAccess::access<Access::write>(std::uint64_t, std::uint32_t,
                                                            AccessFault&);
template unsigned char* GlobalAccess::access<Access::atomic>(std::uint64_t, std::uint32_t,
                                                             AccessFault&);

}  // namespace mobius::ptx
