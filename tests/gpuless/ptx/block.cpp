#include "tests/gpuless/ptx/block.h"

#include <algorithm>
#include <bit>

#include "tests/gpuless/ptx/barriers.h"

namespace mobius::ptx {

Block::Block(LaunchState& launch)
    : launch_(launch),
      global_(launch.memory, launch.tags, launch.order),
      shared_(launch.shared_bytes),
      random_(static_cast<std::uint32_t>(launch.config.seed)) {
  const std::uint32_t warps = (launch.threads + kLanes - 1) / kLanes;
  for (std::uint32_t i = 0; i < warps; ++i) {
    warps_.push_back(std::make_unique<Warp>(*this, i));
    warp_order_.push_back(i);
  }
}

void Block::run(std::uint64_t number) {
  const Dim3& grid = launch_.config.grid;
  number_ = number;
  ++serial_;
  id_ = {static_cast<std::uint32_t>(number % grid.x),
         static_cast<std::uint32_t>(number / grid.x % grid.y),
         static_cast<std::uint32_t>(number / grid.x / grid.y)};
  random_.seed(static_cast<std::uint32_t>(launch_.config.seed * 7919 + number + 1));
  branches_left_ = launch_.config.maximum_branches;
  arrived_.fill(0);
  global_.begin_block(number);
  shared_.begin_block();
  for (const auto& warp : warps_) warp->begin_block();
  do {
    run_warps();
  } while (release_barriers());
  ++counters_.blocks;
}

void Block::run_warps() {
  if (warp_order_.size() > 1) std::shuffle(warp_order_.begin(), warp_order_.end(), random_);
  for (const std::uint32_t index : warp_order_) {
    Warp& warp = *warps_[index];
    if (!warp.is_done()) warp.run();
  }
}

// Called when no warp can run on. Returns false when all have ended; throws if those that have not
// wait in vain.
bool Block::release_barriers() {
  std::array<std::vector<Waiting>, 16> waiting;
  bool is_any_waiting = false;
  for (const auto& warp : warps_) {
    check_alignment(*warp);
    for (Group& group : warp->groups()) {
      if (group.state != Group::State::at_barrier) continue;
      waiting.at(group.barrier).push_back({warp.get(), &group});
      is_any_waiting = true;
    }
  }
  if (!is_any_waiting) return false;
  bool is_any_released = false;
  for (std::uint32_t barrier = 0; barrier < waiting.size(); ++barrier) {
    if (!waiting[barrier].empty()) is_any_released |= release_barrier(barrier, waiting[barrier]);
  }
  if (!is_any_released) report_barrier();
  return true;
}

// Lanes of one warp must reach a barrier of the aligned kind together.
void Block::check_alignment(Warp& warp) {
  const Instruction* first = nullptr;
  for (const Group& group : warp.groups()) {
    if (group.state != Group::State::at_barrier ||
        (group.instruction->flags & kAlignedBarrier) == 0)
      continue;
    if (first == nullptr) first = group.instruction;
    if (first != group.instruction) {
      warp.fault(*group.instruction, std::countr_zero(group.lanes),
                 "lanes of one warp wait at different barriers, which must be reached together");
    }
  }
}

// A barrier without a count waits for all threads that have not exited; one with a count for whole
// warps.
bool Block::release_barrier(std::uint32_t barrier, const std::vector<Waiting>& waiting) {
  const std::uint32_t expected = waiting.front().group->barrier_threads;
  std::uint32_t arrived = arrived_[barrier];
  std::uint32_t live = 0;
  for (const auto& warp : warps_) live += static_cast<std::uint32_t>(std::popcount(warp->live()));
  for (const Waiting& one : waiting) {
    if (one.group->barrier_threads != expected) {
      one.warp->fault(*one.group->instruction, std::countr_zero(one.group->lanes),
                      "waits for another number of threads than others at the barrier");
    }
    arrived += expected == 0 ? static_cast<std::uint32_t>(std::popcount(one.group->lanes)) : kLanes;
  }
  if (arrived < (expected == 0 ? live : expected)) return false;
  reduce(waiting);
  for (const Waiting& one : waiting) one.group->state = Group::State::ready;
  counters_.block_barriers += waiting.size();
  arrived_[barrier] = 0;
  shared_.advance();
  for (const auto& warp : warps_) warp->sync_epoch = 0;
  return true;
}

// bar.red: every thread gets the count, the conjunction or the disjunction of all predicates.
void Block::reduce(const std::vector<Waiting>& waiting) {
  if ((waiting.front().group->instruction->flags & kReduction) == 0) return;
  std::uint32_t count = 0;
  std::uint32_t threads = 0;
  for (const Waiting& one : waiting) {
    const Instruction& instruction = *one.group->instruction;
    const LaneMask value = predicate_in(*one.group->frame, instruction.a) ^
                           static_cast<LaneMask>(instruction.immediate);
    count += static_cast<std::uint32_t>(std::popcount(value & one.group->lanes));
    threads += static_cast<std::uint32_t>(std::popcount(one.group->lanes));
  }
  for (const Waiting& one : waiting) give_reduction(*one.group, count, threads);
}

void Block::report_barrier() {
  for (const auto& warp : warps_) {
    for (const Group& group : warp->groups()) {
      if (group.state != Group::State::at_barrier) continue;
      warp->fault(
          *group.instruction, std::countr_zero(group.lanes),
          "waits at barrier " + std::to_string(group.barrier) + ", which not all threads reach");
    }
  }
  throw std::logic_error("no group of lanes waits at a barrier");
}

}  // namespace mobius::ptx
