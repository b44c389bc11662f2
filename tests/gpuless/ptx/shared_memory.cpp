#include "tests/gpuless/ptx/shared_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace mobius::ptx {

namespace {

// A shadow entry for two bytes, of the last writer or reader:
//   epoch of the block (12 bits), epoch of the warp (6), thread (10), two flags, mask of the bytes
//   (2)
// The flags of a writer say which bytes were ever written in this block; those of a reader whether
// other lanes of its warp, and whether other warps, read in this epoch too.
constexpr int kEpochShift = 20;
constexpr int kSyncShift = 14;
constexpr int kThreadShift = 4;
constexpr std::uint32_t kSyncMask = SharedMemory::kSyncEpochs - 1;
constexpr std::uint32_t kThreadMask = 0x3FF;
constexpr std::uint32_t kBothBytes = 3;
constexpr int kWrittenShift = 2;
constexpr std::uint32_t kLanesFlag = 1u << 2;
constexpr std::uint32_t kWarpsFlag = 1u << 3;
constexpr std::uint32_t kLastEpoch = 0xFFF;
// The bits of a thread that name its warp.
constexpr std::uint32_t kWarpBits = 0x3E0u << kThreadShift;

std::uint32_t epoch_of(std::uint32_t entry) { return entry >> kEpochShift; }
std::uint32_t sync_of(std::uint32_t entry) { return entry >> kSyncShift & kSyncMask; }
std::uint32_t thread_of(std::uint32_t entry) { return entry >> kThreadShift & kThreadMask; }
bool is_same_warp(std::uint32_t one, std::uint32_t other) { return one / 32 == other / 32; }

std::uint32_t entry_of(std::uint32_t epoch, Accessor accessor) {
  return epoch << kEpochShift | accessor.sync_epoch << kSyncShift | accessor.thread << kThreadShift;
}

void fail(SharedFault& fault, SharedFault::Kind kind, std::uint32_t offset, std::uint32_t other) {
  fault.kind = kind;
  fault.offset = offset;
  fault.other = other;
}

// Calls f(granule, mask of its bytes) for the granules of a range while it returns true.
template <typename Function>
bool for_granules(std::uint32_t offset, std::uint32_t bytes, Function f) {
  if ((offset | bytes) % 2 == 0) {
    for (std::uint32_t granule = offset / 2; granule < (offset + bytes) / 2; ++granule) {
      if (!f(granule, kBothBytes)) return false;
    }
    return true;
  }
  for (std::uint32_t byte = offset; byte < offset + bytes; ++byte) {
    if (!f(byte / 2, 1u << byte % 2)) return false;
  }
  return true;
}

}  // namespace

SharedMemory::SharedMemory(std::uint32_t bytes)
    : bytes_(bytes),
      data_(bytes, 0xCB),
      writer_(bytes / 2 + 1),
      reader_(bytes / 2 + 1),
      atomic_epoch_(bytes / 2 + 1),
      claimer_(bytes / 2 + 1) {}

void SharedMemory::begin_block() {
  if (bytes_ == 0) return;
  if (epoch_ > kLastEpoch / 2) {
    std::fill(writer_.begin(), writer_.end(), 0);
    std::fill(reader_.begin(), reader_.end(), 0);
    std::fill(atomic_epoch_.begin(), atomic_epoch_.end(), 0);
    epoch_ = 0;
  }
  if (in_flight_ != 0) {
    std::fill(claimer_.begin(), claimer_.end(), 0);
    in_flight_ = 0;
  }
  first_epoch_ = ++epoch_;
}

void SharedMemory::advance() {
  if (epoch_ == kLastEpoch) compact();
  ++epoch_;
}

// Starts epochs anew, and keeps only which bytes this block wrote.
void SharedMemory::compact() {
  for (std::uint32_t& entry : writer_) {
    entry = epoch_of(entry) >= first_epoch_
                ? (1u << kEpochShift | (entry & kBothBytes << kWrittenShift))
                : 0;
  }
  std::fill(reader_.begin(), reader_.end(), 0);
  std::fill(atomic_epoch_.begin(), atomic_epoch_.end(), 0);
  first_epoch_ = 1;
  epoch_ = 1;
}

bool SharedMemory::is_inside(std::uint32_t offset, std::uint32_t bytes, SharedFault& fault) const {
  if (offset <= bytes_ && bytes <= bytes_ - offset) return true;
  fail(fault, SharedFault::Kind::out_of_bounds, offset, 0);
  return false;
}

// The first thread whose bytes are out of bounds is the accessor of the fault.
bool SharedMemory::are_inside(std::uint32_t offset, std::uint32_t bytes, std::uint32_t threads,
                              SharedFault& fault) const {
  for (std::uint32_t i = 0; i < threads; ++i) {
    if (is_inside(offset, bytes * (threads - i), fault)) return true;
    if (!is_inside(offset, bytes, fault)) return false;
    offset += bytes;
    ++fault.accessor;
  }
  return true;
}

bool SharedMemory::is_free(std::uint32_t offset, std::uint32_t bytes, SharedFault& fault) const {
  if (in_flight_ == 0) return true;
  const std::uint32_t begin = offset / 2;
  const std::uint32_t end = (offset + bytes + 1) / 2;
  std::uint16_t any = 0;
  for (std::uint32_t granule = begin; granule < end; ++granule) any |= claimer_[granule];
  if (any == 0) return true;
  const auto claimed = std::find_if(claimer_.begin() + begin, claimer_.begin() + end,
                                    [](std::uint16_t claimer) { return claimer != 0; });
  const auto place = static_cast<std::uint32_t>(claimed - claimer_.begin());
  fail(fault, SharedFault::Kind::in_flight, place * 2, *claimed - 1u);
  return false;
}

// Whether a write in the entry is not ordered with an access now.
bool SharedMemory::conflicts(std::uint32_t entry, std::uint32_t mask, Accessor accessor) const {
  if (epoch_of(entry) != epoch_ || thread_of(entry) == accessor.thread || (entry & mask) == 0)
    return false;
  return !(is_same_warp(thread_of(entry), accessor.thread) &&
           sync_of(entry) != accessor.sync_epoch);
}

bool SharedMemory::note_read(std::uint32_t granule, std::uint32_t mask, Accessor accessor,
                             SharedFault& fault) {
  const std::uint32_t written = writer_[granule];
  if (epoch_of(written) < first_epoch_ || (written >> kWrittenShift & mask) != mask) {
    fail(fault, SharedFault::Kind::uninitialised, granule * 2, 0);
    return false;
  }
  if (conflicts(written, mask, accessor)) {
    fail(fault, SharedFault::Kind::read_after_write, granule * 2, thread_of(written));
    return false;
  }
  std::uint32_t& reader = reader_[granule];
  const std::uint32_t now = entry_of(epoch_, accessor) | mask;
  if (epoch_of(reader) != epoch_) {
    reader = now;
    return true;
  }
  std::uint32_t flags = reader & (kWarpsFlag | kBothBytes);
  if (!is_same_warp(thread_of(reader), accessor.thread)) {
    flags |= kWarpsFlag;
  } else if (sync_of(reader) == accessor.sync_epoch) {
    flags |= reader & kLanesFlag;
    if (thread_of(reader) != accessor.thread) flags |= kLanesFlag;
  }
  reader = now | flags;
  return true;
}

// The common case, in a loop that vectorises: even bytes, written before the last barrier or by the
// same thread. Returns whether all was so; if not, nothing was noted. Granule i belongs to the
// thread i >> shift behind the first.
template <bool kTogether>
bool SharedMemory::note_reads(std::uint32_t granule, std::uint32_t count, int shift,
                              Accessor first) {
  const std::uint32_t* const writer = writer_.data() + granule;
  std::uint32_t* const reader = reader_.data() + granule;
  const std::uint32_t start = entry_of(epoch_, first) | kBothBytes;
  const std::uint32_t epoch = epoch_;
  const std::uint32_t first_epoch = first_epoch_;
  const std::uint32_t step = kTogether ? 0 : 1u << kThreadShift;
  std::uint32_t bad = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t w = writer[i];
    const std::uint32_t now = start + (i >> shift) * step;
    const std::uint32_t differs = (w ^ now) & kThreadMask << kThreadShift;
    bad |= static_cast<std::uint32_t>(epoch_of(w) < first_epoch);
    bad |=
        static_cast<std::uint32_t>(epoch_of(w) == epoch) & static_cast<std::uint32_t>(differs != 0);
    bad |= ~w & kBothBytes << kWrittenShift;
  }
  if (bad != 0) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t r = reader[i];
    const std::uint32_t now = start + (i >> shift) * step;
    const std::uint32_t change = r ^ now;
    const std::uint32_t kept = epoch_of(change) == 0 ? r & (kWarpsFlag | kBothBytes) : 0;
    const std::uint32_t warps = (change & kWarpBits) != 0 ? kWarpsFlag : 0;
    const std::uint32_t lanes =
        (change & kThreadMask << kThreadShift) != 0 ? kLanesFlag : r & kLanesFlag;
    const std::uint32_t same_warp = sync_of(change) == 0 ? lanes : 0;
    const std::uint32_t added = warps != 0 ? warps : same_warp;
    reader[i] = now | kept | (epoch_of(change) == 0 ? added : 0) | (kTogether ? kLanesFlag : 0);
  }
  return true;
}

// The same for writes: granules that nobody else accessed since the last barrier.
bool SharedMemory::note_writes(std::uint32_t granule, std::uint32_t count, int shift,
                               Accessor first) {
  std::uint32_t* const writer = writer_.data() + granule;
  const std::uint32_t* const reader = reader_.data() + granule;
  const std::uint32_t start = entry_of(epoch_, first) | kBothBytes << kWrittenShift | kBothBytes;
  const std::uint32_t epoch = epoch_;
  std::uint32_t bad = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t now = start + (i >> shift << kThreadShift);
    const std::uint32_t w = writer[i];
    const std::uint32_t r = reader[i];
    const std::uint32_t thread = kThreadMask << kThreadShift;
    const std::uint32_t by_others = ((r ^ now) & thread) | (r & (kLanesFlag | kWarpsFlag));
    bad |= static_cast<std::uint32_t>(epoch_of(w) == epoch) &
           static_cast<std::uint32_t>(((w ^ now) & thread) != 0);
    bad |= static_cast<std::uint32_t>(epoch_of(r) == epoch) &
           static_cast<std::uint32_t>(by_others != 0);
  }
  if (bad != 0) return false;
  for (std::uint32_t i = 0; i < count; ++i) writer[i] = start + (i >> shift << kThreadShift);
  return true;
}

bool SharedMemory::read_slowly(std::uint32_t offset, std::uint32_t bytes, Accessor accessor,
                               SharedFault& fault) {
  fault.accessor = accessor.thread;
  return for_granules(offset, bytes, [&](std::uint32_t granule, std::uint32_t mask) {
    return note_read(granule, mask, accessor, fault);
  });
}

bool SharedMemory::read(std::uint32_t offset, std::uint32_t bytes, std::uint32_t threads,
                        Accessor first, SharedFault& fault) {
  fault.accessor = first.thread;
  if (!are_inside(offset, bytes, threads, fault) || !is_free(offset, bytes * threads, fault)) {
    return false;
  }
  if ((offset | bytes) % 2 == 0 &&
      note_reads<false>(offset / 2, bytes / 2 * threads, std::countr_zero(bytes) - 1, first)) {
    return true;
  }
  for (std::uint32_t i = 0; i < threads; ++i) {
    const Accessor accessor = {first.thread + i, first.sync_epoch};
    if (!read_slowly(offset + i * bytes, bytes, accessor, fault)) return false;
  }
  return true;
}

bool SharedMemory::read_together(std::uint32_t offset, std::uint32_t bytes, Accessor first,
                                 SharedFault& fault) {
  fault.accessor = first.thread;
  if (!is_inside(offset, bytes, fault) || !is_free(offset, bytes, fault)) return false;
  if ((offset | bytes) % 2 == 0 && note_reads<true>(offset / 2, bytes / 2, 0, first)) return true;
  // A second lane makes the entry one of several lanes.
  return read_slowly(offset, bytes, first, fault) &&
         read_slowly(offset, bytes, {first.thread ^ 1, first.sync_epoch}, fault);
}

bool SharedMemory::check_write(std::uint32_t offset, std::uint32_t bytes, Accessor accessor,
                               bool is_same, SharedFault& fault) {
  return for_granules(offset, bytes, [&](std::uint32_t granule, std::uint32_t mask) {
    const std::uint32_t written = writer_[granule];
    if (conflicts(written, mask, accessor) && !is_same) {
      fail(fault, SharedFault::Kind::write_after_write, granule * 2, thread_of(written));
      return false;
    }
    const std::uint32_t read = reader_[granule];
    if (epoch_of(read) != epoch_ || (read & mask) == 0) return true;
    const bool is_by_several = (read & (kLanesFlag | kWarpsFlag)) != 0;
    // Bytes that several threads read next to each other cannot be told apart.
    if (is_by_several && mask != kBothBytes) return true;
    if ((read & kWarpsFlag) == 0) {
      if (thread_of(read) == accessor.thread && !is_by_several) return true;
      if (is_same_warp(thread_of(read), accessor.thread) && sync_of(read) != accessor.sync_epoch)
        return true;
    }
    fail(fault, SharedFault::Kind::write_after_read, granule * 2, thread_of(read));
    return false;
  });
}

void SharedMemory::mark_written(std::uint32_t offset, std::uint32_t bytes, Accessor accessor) {
  const std::uint32_t now = entry_of(epoch_, accessor);
  for_granules(offset, bytes, [&](std::uint32_t granule, std::uint32_t mask) {
    std::uint32_t& entry = writer_[granule];
    const std::uint32_t written =
        epoch_of(entry) >= first_epoch_ ? entry & kBothBytes << kWrittenShift : 0;
    entry = now | written | mask << kWrittenShift | mask;
    return true;
  });
}

bool SharedMemory::write(std::uint32_t offset, std::uint32_t bytes, std::uint32_t threads,
                         Accessor first, const void* values, SharedFault& fault) {
  fault.accessor = first.thread;
  if (!are_inside(offset, bytes, threads, fault) || !is_free(offset, bytes * threads, fault)) {
    return false;
  }
  unsigned char* const data = data_.data() + offset;
  if ((offset | bytes) % 2 == 0 &&
      note_writes(offset / 2, bytes / 2 * threads, std::countr_zero(bytes) - 1, first)) {
    std::memcpy(data, values, std::size_t{bytes} * threads);
    return true;
  }
  for (std::uint32_t i = 0; i < threads; ++i) {
    const Accessor accessor = {first.thread + i, first.sync_epoch};
    const auto* const value = static_cast<const unsigned char*>(values) + i * bytes;
    fault.accessor = accessor.thread;
    const bool is_same = std::memcmp(data + i * bytes, value, bytes) == 0;
    if (!check_write(offset + i * bytes, bytes, accessor, is_same, fault)) return false;
    mark_written(offset + i * bytes, bytes, accessor);
    std::memcpy(data + i * bytes, value, bytes);
  }
  return true;
}

bool SharedMemory::atomic(std::uint32_t offset, std::uint32_t bytes, Accessor accessor,
                          SharedFault& fault) {
  if (!is_inside(offset, bytes, fault) || !is_free(offset, bytes, fault)) return false;
  const std::uint32_t granule = offset / 2;
  const bool is_initialised =
      for_granules(offset, bytes, [&](std::uint32_t one, std::uint32_t mask) {
        return epoch_of(writer_[one]) >= first_epoch_ &&
               (writer_[one] >> kWrittenShift & mask) == mask;
      });
  if (!is_initialised) {
    fail(fault, SharedFault::Kind::uninitialised, offset, 0);
    return false;
  }
  if (atomic_epoch_[granule] != epoch_ && !check_write(offset, bytes, accessor, false, fault))
    return false;
  mark_written(offset, bytes, accessor);
  for_granules(offset, bytes, [&](std::uint32_t one, std::uint32_t) {
    atomic_epoch_[one] = epoch_;
    return true;
  });
  return true;
}

bool SharedMemory::claim(std::uint32_t offset, std::uint32_t bytes, Accessor accessor,
                         SharedFault& fault) {
  fault.accessor = accessor.thread;
  if (!is_inside(offset, bytes, fault) || !is_free(offset, bytes, fault)) return false;
  const std::uint32_t granule = offset / 2;
  const std::uint32_t count = bytes / 2;
  if (!note_writes(granule, count, std::countr_zero(bytes) - 1, accessor)) {
    if (!check_write(offset, bytes, accessor, false, fault)) return false;
    mark_written(offset, bytes, accessor);
  }
  std::fill_n(claimer_.begin() + granule, count, static_cast<std::uint16_t>(accessor.thread + 1));
  in_flight_ += bytes;
  return true;
}

void SharedMemory::fill(std::uint32_t offset, std::uint32_t bytes, Accessor accessor,
                        const void* value) {
  const std::uint32_t granule = offset / 2;
  const std::uint32_t count = bytes / 2;
  std::memcpy(data_.data() + offset, value, bytes);
  const std::uint32_t now = entry_of(epoch_, accessor) | kBothBytes << kWrittenShift | kBothBytes;
  std::fill_n(writer_.begin() + granule, count, now);
  std::fill_n(claimer_.begin() + granule, count, std::uint16_t{0});
  in_flight_ -= bytes;
}

}  // namespace mobius::ptx
