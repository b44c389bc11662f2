#include "tests/gpuless/ptx/warp.h"

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>

#include "tests/gpuless/ptx/allocation.h"
#include "tests/gpuless/ptx/block.h"
#include "tests/gpuless/ptx/fault.h"

namespace mobius::ptx {

namespace {

constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kMaximumLocal = 512 * 1024;  // bytes of one thread, as on devices

template <typename T>
void spread(std::byte* slot, std::uint64_t value) {
  std::fill_n(reinterpret_cast<T*>(slot), kLanes, static_cast<T>(value));
}

void broadcast(std::byte* slot, std::uint32_t bytes, std::uint64_t value) {
  if (bytes == 8) return spread<std::uint64_t>(slot, value);
  if (bytes == 4) return spread<std::uint32_t>(slot, value);
  spread<std::uint16_t>(slot, value);
}

std::uint32_t component(const Dim3& size, std::uint32_t thread, int axis) {
  switch (axis) {
    case 0:
      return thread % size.x;
    case 1:
      return thread / size.x % size.y;
    default:
      return thread / size.x / size.y;
  }
}

bool depends_on_lane(Special special) {
  switch (special) {
    case Special::tid_x:
    case Special::tid_y:
    case Special::tid_z:
    case Special::laneid:
    case Special::lanemask_eq:
    case Special::lanemask_lt:
    case Special::lanemask_le:
    case Special::lanemask_gt:
    case Special::lanemask_ge:
      return true;
    default:
      return false;
  }
}

bool depends_on_block(Special special) {
  return special == Special::ctaid_x || special == Special::ctaid_y || special == Special::ctaid_z;
}

std::uint64_t lane_value(Special special, const Warp& warp, Block& block, const Frame& frame,
                         int lane) {
  const LaunchConfig& config = block.launch().config;
  const std::uint32_t thread = warp.thread_of(lane);
  const LaneMask self = LaneMask{1} << lane;
  switch (special) {
    case Special::tid_x:
      return component(config.block, thread, 0);
    case Special::tid_y:
      return component(config.block, thread, 1);
    case Special::tid_z:
      return component(config.block, thread, 2);
    case Special::ntid_x:
      return config.block.x;
    case Special::ntid_y:
      return config.block.y;
    case Special::ntid_z:
      return config.block.z;
    case Special::ctaid_x:
      return block.id().x;
    case Special::ctaid_y:
      return block.id().y;
    case Special::ctaid_z:
      return block.id().z;
    case Special::nctaid_x:
      return config.grid.x;
    case Special::nctaid_y:
      return config.grid.y;
    case Special::nctaid_z:
      return config.grid.z;
    case Special::laneid:
      return static_cast<std::uint64_t>(lane);
    case Special::warpid:
      return warp.index();
    case Special::nwarpid:
      return (block.launch().threads + kLanes - 1) / kLanes;
    case Special::smid:
    case Special::gridid:
      return 0;
    case Special::nsmid:
      return 1;
    case Special::lanemask_eq:
      return self;
    case Special::lanemask_lt:
      return self - 1;
    case Special::lanemask_le:
      return self | (self - 1);
    case Special::lanemask_gt:
      return ~(self | (self - 1));
    case Special::lanemask_ge:
      return ~(self - 1);
    case Special::dynamic_shared_size:
      return config.dynamic_shared_bytes;
    case Special::total_shared_size:
      return block.launch().shared_bytes;
    case Special::dynamic_shared_base:
      return block.launch().dynamic_base;
    case Special::local_base:
      return frame.local_base;
  }
  return 0;
}

}  // namespace

Warp::Warp(Block& block, std::uint32_t index) : block_(&block), index_(index) {
  const std::uint32_t threads =
      std::min(block.launch().threads - index * kLanes, std::uint32_t{kLanes});
  present_ = threads == kLanes ? kAllLanes : (LaneMask{1} << threads) - 1;
}

Warp::~Warp() = default;

void Warp::begin_block() {
  block_serial_ = block_->serial();
  sync_epoch = 0;
  copies_.pending.clear();
  copies_.committed.fill(0);
  live_ = present_;
  groups_.clear();
  const Function& entry = *block_->launch().program.functions[0];
  if (frames_.empty()) take_frame(entry);
  Frame& frame = *frames_[0];
  fill_specials(frame, true);
  frame.lanes = present_;
  if (!local_.written.empty()) std::fill(local_.written.begin(), local_.written.end(), 0);
  for (auto& [function, free] : free_frames_) free.clear();
  for (std::size_t i = 1; i < frames_.size(); ++i)
    free_frames_[frames_[i]->function].push_back(frames_[i].get());
  set_current({&frame, 0, present_, Group::State::ready, nullptr, 0, 0, 0, false});
}

void Warp::run() {
  if (lanes_ == 0 && !reschedule()) return;
  auto& counts = block_->counters().instructions;
  for (;;) {
    const Instruction& instruction = code_[pc_];
    ++pc_;
    const LaneMask active = lanes_ & (predicate(instruction.guard) ^ instruction.guard_flip);
    if (active != 0) {
      InstructionCount& count = counts[static_cast<std::size_t>(instruction.kind)];
      ++count.warps;
      count.lanes += static_cast<std::uint64_t>(std::popcount(active));
      instruction.run(*this, instruction, active);
    }
    if (pc_ >= stop_pc_ && !reschedule()) return;
  }
}

void Warp::set_current(const Group& group) {
  frame_ = group.frame;
  registers_ = frame_->registers.get();
  code_ = frame_->function->code.data();
  pc_ = group.pc;
  lanes_ = group.lanes;
  stop_pc_ = kNever;
  for (const Group& other : groups_) {
    if (other.state == Group::State::ready && other.frame == frame_)
      stop_pc_ = std::min(stop_pc_, other.pc);
  }
}

void Warp::add_ready(Frame* frame, std::uint32_t pc, LaneMask lanes) {
  for (Group& group : groups_) {
    if (group.state == Group::State::ready && group.frame == frame && group.pc == pc) {
      group.lanes |= lanes;
      return;
    }
  }
  groups_.push_back({frame, pc, lanes, Group::State::ready, nullptr, 0, 0, 0, false});
}

bool Warp::reschedule() {
  if (lanes_ != 0) add_ready(frame_, pc_, lanes_);
  lanes_ = 0;
  auto best = groups_.end();
  bool is_any_at_sync = false;
  for (auto group = groups_.begin(); group != groups_.end(); ++group) {
    is_any_at_sync |= group->state == Group::State::at_sync;
    if (group->state != Group::State::ready) continue;
    if (best == groups_.end() || group->frame->depth > best->frame->depth ||
        (group->frame->depth == best->frame->depth && group->pc < best->pc)) {
      best = group;
    }
  }
  if (best == groups_.end()) {
    if (!is_any_at_sync) return false;
    if (!release_warp_barrier()) report_stuck();
    return reschedule();
  }
  const Group group = *best;
  groups_.erase(best);
  set_current(group);
  return true;
}

// bar.warp.sync lets lanes meet at different places, as long as all that are named wait at one.
bool Warp::release_warp_barrier() {
  LaneMask waiting = 0;
  LaneMask named = 0;
  for (const Group& group : groups_) {
    if (group.state != Group::State::at_sync || !group.instruction->is_warp_barrier) continue;
    waiting |= group.lanes;
    named |= group.named;
  }
  if (waiting == 0 || (named & live_ & ~waiting) != 0) return false;
  for (Group& group : groups_) {
    if (group.state == Group::State::at_sync && group.instruction->is_warp_barrier) {
      group.state = Group::State::ready;
    }
  }
  end_sync_epoch();
  return true;
}

void Warp::end_sync_epoch() {
  if (++sync_epoch < SharedMemory::kSyncEpochs) return;
  // The shadow has no more room for epochs of the warp: a new one of the block serves as well.
  sync_epoch = 0;
  block_->shared().advance();
}

void Warp::branch(const Instruction& instruction, LaneMask active, std::uint32_t target) {
  if (target < pc_ && --block_->branches_left() == 0) {
    fault(instruction, std::countr_zero(active), "the kernel does not end");
  }
  if (active == lanes_) {
    pc_ = target;
    return;
  }
  add_ready(frame_, target, active);
  lanes_ &= ~active;
  stop_pc_ = 0;
}

Frame* Warp::take_frame(const Function& function) {
  std::vector<Frame*>& free = free_frames_[&function];
  if (!free.empty()) {
    Frame* const frame = free.back();
    free.pop_back();
    if (frame->block_serial != block_serial_) fill_specials(*frame, true);
    return frame;
  }
  frames_.push_back(std::make_unique<Frame>());
  Frame& frame = *frames_.back();
  frame.function = &function;
  frame.registers.reset(
      static_cast<std::byte*>(::operator new (function.frame_bytes + 256, std::align_val_t{64})));
  reserve_local(frame);
  fill_frame(frame);
  return &frame;
}

void Warp::fill_frame(Frame& frame) {
  std::byte* const registers = frame.registers.get();
  std::memset(registers, 0xFF, sizeof(LaneMask));
  for (const Constant& constant : frame.function->constants) {
    broadcast(registers + constant.offset, constant.bytes, constant.value);
  }
  fill_specials(frame, false);
}

void Warp::fill_specials(Frame& frame, bool only_block) {
  frame.block_serial = block_serial_;
  for (const SpecialSlot& slot : frame.function->specials) {
    if (only_block && !depends_on_block(slot.special)) continue;
    std::byte* const place = frame.registers.get() + slot.offset;
    if (!depends_on_lane(slot.special)) {
      broadcast(place, slot.bytes,
                lane_value(slot.special, *this, *block_, frame, 0) + slot.addend);
      continue;
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t value =
          lane_value(slot.special, *this, *block_, frame, lane) + slot.addend;
      std::memcpy(place + static_cast<std::uint32_t>(lane) * slot.bytes, &value, slot.bytes);
    }
  }
}

void Warp::reserve_local(Frame& frame) {
  const std::uint32_t base = (local_used_ + 15) / 16 * 16;
  frame.local_base = base;
  local_used_ = base + frame.function->local_bytes;
  if (local_used_ <= local_.stride) return;
  Local grown;
  grown.stride = std::max(local_used_, local_.stride * 2);
  grown.bytes.assign(std::size_t{grown.stride} * kLanes, 0xCB);
  grown.written.assign(std::size_t{grown.stride} * kLanes, 0);
  for (std::size_t lane = 0; lane < kLanes && local_.stride != 0; ++lane) {
    std::copy_n(local_.bytes.data() + lane * local_.stride, local_.stride,
                grown.bytes.data() + lane * grown.stride);
    std::copy_n(local_.written.data() + lane * local_.stride, local_.stride,
                grown.written.data() + lane * grown.stride);
  }
  local_ = std::move(grown);
}

namespace {

void copy_lanes(std::byte* to, const std::byte* from, std::uint32_t bytes, LaneMask active) {
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    std::memcpy(to + lane * bytes, from + lane * bytes, bytes);
  }
}

}  // namespace

// The operands of a call: how many arguments and results, then the places of each in the frame of
// the caller.
void Warp::call(const Instruction& instruction, LaneMask active, std::uint32_t index) {
  const Function& callee = *block_->launch().program.functions[index];
  Frame* const caller = frame_;
  Frame* const frame = take_frame(callee);
  if (local_used_ > kMaximumLocal)
    fault(instruction, std::countr_zero(active), "the stack of local memory overflows");
  frame->caller = caller;
  frame->call = &instruction;
  frame->return_pc = pc_;
  frame->depth = caller->depth + 1;
  frame->lanes = active;
  const std::uint32_t* places = operands(instruction);
  if (places[0] != callee.parameters.size() || places[1] != callee.results.size()) {
    fault(instruction, std::countr_zero(active), "the call does not fit the function");
  }
  for (std::size_t i = 0; i < callee.parameters.size(); ++i) {
    copy_lanes(frame->registers.get() + callee.parameters[i].offset,
               caller->registers.get() + places[2 + i], callee.parameters[i].bytes, active);
  }
  if (callee.local_bytes != 0) {
    for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
      unsigned char* const written =
          local_.written.data() + static_cast<std::size_t>(std::countr_zero(rest)) * local_.stride +
          frame->local_base;
      std::fill_n(written, callee.local_bytes, 0);
    }
  }
  lanes_ &= ~active;
  if (lanes_ != 0) add_ready(caller, pc_, lanes_);
  set_current({frame, 0, active, Group::State::ready, nullptr, 0, 0, 0, false});
}

void Warp::repeat_for(LaneMask lanes) {
  lanes_ &= ~lanes;
  add_ready(frame_, pc_ - 1, lanes);
}

void Warp::leave(const Instruction& instruction, LaneMask active) {
  Frame* const frame = frame_;
  if (frame->caller == nullptr) {
    exit(instruction, active);
    return;
  }
  const std::uint32_t* places = frame->caller->function->operands.data() + frame->call->operands;
  const Function& callee = *frame->function;
  for (std::size_t i = 0; i < callee.results.size(); ++i) {
    copy_lanes(frame->caller->registers.get() + places[2 + callee.parameters.size() + i],
               frame->registers.get() + callee.results[i].offset, callee.results[i].bytes, active);
  }
  add_ready(frame->caller, frame->return_pc, active);
  lanes_ &= ~active;
  frame->lanes &= ~active;
  if (frame->lanes == 0) free_frames_[frame->function].push_back(frame);
  stop_pc_ = 0;
}

void Warp::exit(const Instruction& instruction, LaneMask active) {
  for (const AsyncCopy& copy : copies_.pending) {
    if ((active >> copy.lane & 1) == 0) continue;
    const bool is_committed = copy.group < copies_.committed[static_cast<std::size_t>(copy.lane)];
    fault(instruction, copy.lane,
          std::string("exits with a cp.async in flight, which was ") +
              (is_committed ? "not waited for" : "never committed"));
  }
  lanes_ &= ~active;
  live_ &= ~active;
  for (Frame* frame = frame_; frame != nullptr; frame = frame->caller) frame->lanes &= ~active;
  stop_pc_ = 0;
}

LaneMask Warp::converge(const Instruction& instruction, LaneMask active, LaneMask named) {
  const LaneMask expected = named & live_;
  if ((expected & ~active) == 0) return active;
  LaneMask met = active;
  for (const Group& group : groups_) {
    if (group.state == Group::State::at_sync && group.frame == frame_ &&
        group.instruction == &instruction) {
      met |= group.lanes;
    }
  }
  if ((expected & ~met) != 0) {
    groups_.push_back(
        {frame_, pc_, active, Group::State::at_sync, &instruction, named, 0, 0, false});
    lanes_ &= ~active;
    stop_pc_ = 0;
    return 0;
  }
  std::erase_if(groups_, [&](const Group& group) {
    return group.state == Group::State::at_sync && group.frame == frame_ &&
           group.instruction == &instruction;
  });
  lanes_ |= met;
  return met;
}

void Warp::wait_at_barrier(const Instruction& instruction, LaneMask active, std::uint32_t barrier,
                           std::uint32_t threads) {
  lanes_ &= ~active;
  stop_pc_ = 0;
  for (Group& group : groups_) {
    if (group.state == Group::State::at_barrier && group.frame == frame_ &&
        group.instruction == &instruction) {
      group.lanes |= active;
      return;
    }
  }
  groups_.push_back(
      {frame_, pc_, active, Group::State::at_barrier, &instruction, 0, barrier, threads, false});
}

void Warp::report_stuck() {
  for (const Group& group : groups_) {
    if (group.state != Group::State::at_sync) continue;
    set_current(group);
    const LaneMask missing = group.named & live_ & ~group.lanes;
    const LaneMask exited = group.named & present_ & ~live_;
    const int lane = std::countr_zero(missing != 0 ? missing : exited);
    fault(*group.instruction, std::countr_zero(group.lanes),
          missing != 0
              ? "waits for lane " + std::to_string(lane) +
                    ", which its mask names and which never comes"
              : "its member mask names lane " + std::to_string(lane) + ", which has exited");
  }
  throw std::logic_error("no group of lanes waits");
}

void Warp::fault(const Instruction& instruction, int lane, const std::string& what) {
  const LaunchState& launch = block_->launch();
  const Dim3& id = block_->id();
  const std::uint32_t thread = thread_of(lane);
  const Dim3& size = launch.config.block;
  const auto triple = [](std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    return "(" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
  };
  const std::string_view text = launch.program.line_of(*frame_->function, instruction);
  const std::string& all = *launch.program.text;
  const auto number = 1 + std::count(all.data(), text.data(), '\n');
  std::string message =
      "kernel " + launch.kernel.name + ": " + what + "; at `" + std::string(text) + "`";
  if (frame_->caller != nullptr) message += " in " + frame_->function->name;
  message +=
      " (line " + std::to_string(number) + " of the PTX), block " + triple(id.x, id.y, id.z) +
      ", thread " +
      triple(component(size, thread, 0), component(size, thread, 1), component(size, thread, 2));
  throw Fault(message);
}

}  // namespace mobius::ptx
