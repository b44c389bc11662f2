#pragma once

#include <cstdint>
#include <vector>

namespace mobius::ptx {

/// How an access to shared memory is wrong, and which thread's access it meets.
struct SharedFault {
  enum class Kind {
    none,
    out_of_bounds,
    uninitialised,
    read_after_write,
    write_after_write,
    write_after_read,
    in_flight
  } kind = Kind::none;
  std::uint32_t offset = 0;
  std::uint32_t other = 0;     // the thread of the other access
  std::uint32_t accessor = 0;  // the thread of this one
};

/// Who accesses shared memory, and when in the order of its warp.
struct Accessor {
  std::uint32_t thread;
  std::uint32_t sync_epoch;  // below SharedMemory::kSyncEpochs
};

/// The shared memory of a block. A shadow for every two bytes knows the last writer and the readers
/// since the last barrier of the block: threads of different warps are ordered by barriers alone,
/// lanes of a warp by bar.warp.sync too.
class SharedMemory {
 public:
  static constexpr std::uint32_t kSyncEpochs = 64;

  explicit SharedMemory(std::uint32_t bytes);

  std::uint32_t bytes() const { return bytes_; }
  unsigned char* data() { return data_.data(); }

  /// Forgets what the last block wrote.
  void begin_block();
  /// A barrier of the block: all accesses before are ordered before all that follow.
  void advance();

  /// Check the accesses of `threads` neighbouring threads, `bytes` for each, one behind the other,
  /// and note them. They return false with `fault` set; its thread is then the accessor. A write of
  /// what is there already is no race with another write.
  bool read(std::uint32_t offset, std::uint32_t bytes, std::uint32_t threads, Accessor first,
            SharedFault& fault);
  bool write(std::uint32_t offset, std::uint32_t bytes, std::uint32_t threads, Accessor first,
             const void* values, SharedFault& fault);
  /// Several lanes of a warp read the same bytes.
  bool read_together(std::uint32_t offset, std::uint32_t bytes, Accessor first, SharedFault& fault);
  /// An atomic reads and writes, and meets other atomics without a race.
  bool atomic(std::uint32_t offset, std::uint32_t bytes, Accessor accessor, SharedFault& fault);

  /// A copy in flight owns its destination from `claim` to `fill`.
  bool claim(std::uint32_t offset, std::uint32_t bytes, Accessor accessor, SharedFault& fault);
  void fill(std::uint32_t offset, std::uint32_t bytes, Accessor accessor, const void* value);

 private:
  template <bool kTogether>
  bool note_reads(std::uint32_t granule, std::uint32_t count, int shift, Accessor first);
  bool note_writes(std::uint32_t granule, std::uint32_t count, int shift, Accessor first);
  bool read_slowly(std::uint32_t offset, std::uint32_t bytes, Accessor accessor,
                   SharedFault& fault);
  bool is_inside(std::uint32_t offset, std::uint32_t bytes, SharedFault& fault) const;
  bool are_inside(std::uint32_t offset, std::uint32_t bytes, std::uint32_t threads,
                  SharedFault& fault) const;
  bool is_free(std::uint32_t offset, std::uint32_t bytes, SharedFault& fault) const;
  bool check_write(std::uint32_t offset, std::uint32_t bytes, Accessor accessor, bool is_same,
                   SharedFault& fault);
  void mark_written(std::uint32_t offset, std::uint32_t bytes, Accessor accessor);
  bool conflicts(std::uint32_t entry, std::uint32_t mask, Accessor accessor) const;
  bool note_read(std::uint32_t granule, std::uint32_t mask, Accessor accessor, SharedFault& fault);
  void compact();

  std::uint32_t bytes_;
  std::uint32_t epoch_ = 1;
  std::uint32_t first_epoch_ = 1;  // of the block
  std::uint32_t in_flight_ = 0;    // bytes claimed
  std::vector<unsigned char> data_;
  std::vector<std::uint32_t> writer_;
  std::vector<std::uint32_t> reader_;
  std::vector<std::uint32_t> atomic_epoch_;  // in which atomics alone wrote
  std::vector<std::uint16_t> claimer_;       // thread + 1 whose copy is in flight
};

}  // namespace mobius::ptx
