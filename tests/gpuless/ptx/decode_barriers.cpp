// Barriers: bar, barrier, bar.red, bar.arrive, bar.warp.sync.

#include <bit>
#include <cstdint>
#include <string>

#include "tests/gpuless/ptx/barriers.h"
#include "tests/gpuless/ptx/block.h"
#include "tests/gpuless/ptx/lane_loops.h"
#include "tests/gpuless/ptx/warp_sync.h"

namespace mobius::ptx {

namespace {

// The number of the barrier is in `b`, that of threads in `c`; without one, offset 0 stands for all
// threads.
std::uint32_t threads_of(Warp& warp, const Instruction& instruction, int lane) {
  return instruction.c == 0 ? 0 : warp.lanes_of<std::uint32_t>(instruction.c)[lane];
}

std::uint32_t barrier_of(Warp& warp, const Instruction& instruction, int lane) {
  const std::uint32_t barrier = warp.lanes_of<std::uint32_t>(instruction.b)[lane];
  if (barrier >= 16)
    warp.fault(instruction, lane, "there is no barrier " + std::to_string(barrier));
  return barrier;
}

void run_barrier(Warp& warp, const Instruction& instruction, LaneMask active) {
  const int lane = std::countr_zero(active);
  const std::uint32_t threads = threads_of(warp, instruction, lane);
  if (threads % kLanes != 0)
    warp.fault(instruction, lane, "the number of threads is no multiple of 32");
  warp.wait_at_barrier(instruction, active, barrier_of(warp, instruction, lane), threads);
}

void run_arrive(Warp& warp, const Instruction& instruction, LaneMask active) {
  warp.block().arrive(barrier_of(warp, instruction, std::countr_zero(active)), kLanes);
}

void run_warp_barrier(Warp& warp, const Instruction& instruction, LaneMask active) {
  active = warp.converge(instruction, active, named_lanes(warp, instruction, active));
  if (active == 0) return;
  warp.end_sync_epoch();
}

constexpr Type kU32 = {'u', 32, false};

// bar.sync a{, b}; bar.red.op d, a{, b}, p.
void decode_barrier(Decoder& decoder) {
  Instruction& instruction = decoder.instruction;
  if (decoder.has("warp")) {
    set_member_mask(decoder, decoder.operand(0));
    instruction.is_warp_barrier = true;
    return finish(decoder, &run_warp_barrier, InstructionClass::control);
  }
  if (decoder.opcode()[0] == "bar" || decoder.has("aligned")) instruction.flags |= kAlignedBarrier;
  std::size_t place = 0;
  const bool reduces = decoder.has("red");
  if (reduces) {
    const bool counts = decoder.has("popc");
    instruction.flags |= counts ? kReduceCount : decoder.has("and") ? kReduceAnd : kReduceOr;
    instruction.destination = counts ? decoder.destination(decoder.operand(place), 32)
                                     : decoder.predicate_destination(decoder.operand(place));
    ++place;
  }
  instruction.b = decoder.source(decoder.operand(place++), kU32);
  if (reduces) {
    const PredicateOperand predicate =
        decoder.predicate(decoder.operand(decoder.operand_count() - 1));
    instruction.a = predicate.offset;
    instruction.immediate = predicate.is_negated ? kAllLanes : 0;
  }
  if (place + (reduces ? 1 : 0) < decoder.operand_count())
    instruction.c = decoder.source(decoder.operand(place), kU32);
  finish(decoder, decoder.has("arrive") ? &run_arrive : &run_barrier, InstructionClass::control);
}

}  // namespace

void give_reduction(Group& group, std::uint32_t count, std::uint32_t threads) {
  const Instruction& instruction = *group.instruction;
  if ((instruction.flags & kReduceCount) != 0) {
    auto* const d =
        reinterpret_cast<std::uint32_t*>(group.frame->registers.get() + instruction.destination);
    for_lanes(group.lanes, [=](int lane) { d[lane] = count; });
    return;
  }
  const bool result = (instruction.flags & kReduceAnd) != 0 ? count == threads : count != 0;
  LaneMask& d = predicate_in(*group.frame, instruction.destination);
  d = (d & ~group.lanes) | (result ? group.lanes : 0);
}

void add_barriers(DecodeTable& table) {
  table["bar"] = decode_barrier;
  table["barrier"] = decode_barrier;
}

}  // namespace mobius::ptx
