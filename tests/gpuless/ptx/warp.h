#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/gpuless/ptx/async_copies.h"
#include "tests/gpuless/ptx/lanes.h"
#include "tests/gpuless/ptx/program.h"

namespace mobius::ptx {

class Block;

/// The registers and local variables of one call of a function by lanes of a warp.
struct Frame {
  struct Free {
    void operator()(std::byte* storage) const { ::operator delete (storage, std::align_val_t{64}); }
  };
  const Function* function = nullptr;
  std::unique_ptr<std::byte, Free> registers;
  Frame* caller = nullptr;
  const Instruction* call = nullptr;  // in the caller
  std::uint32_t return_pc = 0;
  std::uint32_t depth = 0;
  std::uint32_t local_base = 0;  // of its depot in the local memory of each lane
  std::uint64_t block_serial = 0;
  LaneMask lanes = 0;  // that have not returned
};

/// Lanes that are at the same instruction of the same call.
struct Group {
  enum class State { ready, at_sync, at_barrier };
  Frame* frame = nullptr;
  std::uint32_t pc = 0;
  LaneMask lanes = 0;
  State state = State::ready;
  const Instruction* instruction = nullptr;  // that it waits at
  LaneMask named = 0;                        // at_sync: the lanes it waits for
  std::uint32_t barrier = 0;                 // at_barrier: which
  std::uint32_t barrier_threads = 0;         // at_barrier: how many it waits for, 0 for all
  bool has_arrived_only = false;  // at_barrier: unused by groups, which go on after bar.arrive
};

/// The 32 lanes that execute together. Lanes that branched apart form groups; the group with the
/// deepest call and, in it, the lowest address runs first, and groups that meet become one.
class Warp {
 public:
  Warp(Block& block, std::uint32_t index);
  ~Warp();

  /// Puts all lanes at the start of the kernel.
  void begin_block();
  /// Runs until every lane has exited or waits at a barrier of the block. Throws a Fault.
  void run();

  Block& block() { return *block_; }
  std::uint32_t index() const { return index_; }
  std::uint32_t thread_of(int lane) const {
    return index_ * kLanes + static_cast<std::uint32_t>(lane);
  }
  /// Lanes that have threads.
  LaneMask present() const { return present_; }
  /// Lanes whose threads have not exited.
  LaneMask live() const { return live_; }
  /// The lanes that run now.
  LaneMask current() const { return lanes_; }
  const Frame& frame() const { return *frame_; }
  const Function& function() const { return *frame_->function; }

  template <typename T>
  T* lanes_of(std::uint32_t offset) {
    return reinterpret_cast<T*>(registers_ + offset);
  }
  LaneMask& predicate(std::uint32_t offset) {
    return *reinterpret_cast<LaneMask*>(registers_ + offset);
  }
  void set_predicate(std::uint32_t offset, LaneMask active, LaneMask value) {
    LaneMask& slot = predicate(offset);
    slot = (slot & ~active) | (value & active);
  }
  const std::uint32_t* operands(const Instruction& instruction) const {
    return frame_->function->operands.data() + instruction.operands;
  }

  // Control.
  void branch(const Instruction& instruction, LaneMask active, std::uint32_t target);
  void call(const Instruction& instruction, LaneMask active, std::uint32_t function);
  /// Lets lanes execute the current instruction once more, on their own.
  void repeat_for(LaneMask lanes);
  void leave(const Instruction& instruction,
             LaneMask active);  // returns from a function, or exits from the kernel
  void exit(const Instruction& instruction, LaneMask active);
  /// For an instruction that lanes execute together: returns all lanes that do so now, or none if
  /// they wait for others that `named` holds.
  LaneMask converge(const Instruction& instruction, LaneMask active, LaneMask named);
  void wait_at_barrier(const Instruction& instruction, LaneMask active, std::uint32_t barrier,
                       std::uint32_t threads);

  /// The epoch of memory order within the warp, which bar.warp.sync ends. Counted anew in each
  /// epoch of the block.
  std::uint32_t sync_epoch = 0;
  void end_sync_epoch();

  std::vector<Group>& groups() { return groups_; }
  bool is_done() const { return live_ == 0; }

  /// Local memory of the lanes and whether each byte was written.
  struct Local {
    std::vector<unsigned char> bytes;
    std::vector<unsigned char> written;
    std::uint32_t stride = 0;  // bytes of one lane
  };
  Local& local() { return local_; }
  AsyncCopies& copies() { return copies_; }
  /// Bytes of a lane's local memory that calls have taken.
  std::uint32_t local_used() const { return local_used_; }

  /// Throws a Fault that names the kernel, the instruction, the block and the thread.
  [[noreturn]] void fault(const Instruction& instruction, int lane, const std::string& what);

 private:
  Frame* take_frame(const Function& function);
  void fill_frame(Frame& frame);
  void fill_specials(Frame& frame, bool only_block);
  void reserve_local(Frame& frame);
  void set_current(const Group& group);
  bool reschedule();
  bool release_warp_barrier();
  void add_ready(Frame* frame, std::uint32_t pc, LaneMask lanes);
  void copy_parameters(const Instruction& instruction, LaneMask active, Frame& callee);
  void copy_results(Frame& callee, LaneMask active);
  [[noreturn]] void report_stuck();

  // The current group.
  std::byte* registers_ = nullptr;
  const Instruction* code_ = nullptr;
  std::uint32_t pc_ = 0;
  std::uint32_t stop_pc_ = 0;  // at this address, or behind, groups are looked at again
  LaneMask lanes_ = 0;
  Frame* frame_ = nullptr;

  Block* block_;
  std::uint32_t index_;
  LaneMask present_ = 0;
  LaneMask live_ = 0;
  std::vector<Group> groups_;  // the others
  std::vector<std::unique_ptr<Frame>> frames_;
  std::map<const Function*, std::vector<Frame*>> free_frames_;
  Local local_;
  AsyncCopies copies_;
  std::uint32_t local_used_ = 0;
  std::uint64_t block_serial_ = 0;
};

}  // namespace mobius::ptx
