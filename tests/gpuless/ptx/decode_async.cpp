// cp.async: copies from global to shared memory that fill their destination when their thread waits
// for them.

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "tests/gpuless/ptx/block.h"
#include "tests/gpuless/ptx/lane_loops.h"
#include "tests/gpuless/ptx/memory_path.h"

namespace mobius::ptx {

namespace {

// The destination is in `a` plus the offset in `target`, the source in `b` plus `immediate`, the
// bytes in `count`; `c` is the register with the bytes to read, the rest being zeros.
constexpr std::uint16_t kNarrowDestination = 1;
constexpr std::uint16_t kZeroFill = 2;

using Addresses = std::array<std::uint64_t, kLanes>;

std::uint64_t destination_of(Warp& warp, const Instruction& instruction, int lane) {
  if ((instruction.flags & kNarrowDestination) != 0) {
    return static_cast<std::uint32_t>(warp.lanes_of<std::uint32_t>(instruction.a)[lane] +
                                      instruction.target);
  }
  return warp.lanes_of<std::uint64_t>(instruction.a)[lane] +
         static_cast<std::int32_t>(instruction.target);
}

void start_copy(Warp& warp, const Instruction& instruction, int lane, std::uint64_t to,
                std::uint64_t from, std::uint32_t bytes_read) {
  const std::uint32_t bytes = instruction.count;
  AsyncCopies& copies = warp.copies();
  AsyncCopy copy;
  copy.lane = lane;
  copy.bytes = bytes;
  copy.group = copies.committed[static_cast<std::size_t>(lane)];
  check_alignment(warp, instruction, lane, to, bytes);
  check_alignment(warp, instruction, lane, from, bytes);
  if (bytes_read > bytes) warp.fault(instruction, lane, "reads more bytes than it copies");
  read_bytes(warp, instruction, lane, from, bytes_read, copy.value.data());
  copy.offset = claim_shared(warp, instruction, lane, to, bytes);
  copies.pending.push_back(copy);
}

void run_copy(Warp& warp, const Instruction& instruction, LaneMask active) {
  const std::uint64_t* const source = warp.lanes_of<std::uint64_t>(instruction.b);
  Addresses to{};
  Addresses from{};
  std::uint64_t bytes_read = 0;
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const auto index = static_cast<std::size_t>(lane);
    to[index] = destination_of(warp, instruction, lane);
    from[index] = source[lane] + static_cast<std::uint64_t>(instruction.immediate);
    const bool zero_fills = (instruction.flags & kZeroFill) != 0;
    const std::uint32_t bytes = zero_fills ? warp.lanes_of<std::uint32_t>(instruction.c)[lane]
                                           : std::uint32_t{instruction.count};
    start_copy(warp, instruction, lane, to[index], from[index], bytes);
    bytes_read += bytes;
  }
  LaunchCounters& counters = warp.block().counters();
  ++counters.asynchronous_copies;
  ++counters.global_reads.requests;
  counters.global_reads.bytes += bytes_read;
  counters.global_reads.sectors += count_sectors(from.data(), active);
  ++counters.shared_writes.requests;
  counters.shared_writes.wavefronts += count_wavefronts(to.data(), active, instruction.count);
  counters.shared_writes.ideal_wavefronts +=
      (static_cast<std::uint64_t>(std::popcount(active)) * instruction.count + 127) / 128;
}

void run_commit(Warp& warp, const Instruction&, LaneMask active) {
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    ++warp.copies().committed[static_cast<std::size_t>(std::countr_zero(rest))];
  }
}

// Fills the destinations of all copies but those of the last `immediate` groups of each lane, or of
// all copies.
constexpr std::int64_t kWaitAll = -1;

void run_wait(Warp& warp, const Instruction& instruction, LaneMask active) {
  AsyncCopies& copies = warp.copies();
  std::erase_if(copies.pending, [&](const AsyncCopy& copy) {
    if ((active >> copy.lane & 1) == 0) return false;
    const std::uint64_t committed = copies.committed[static_cast<std::size_t>(copy.lane)];
    const bool is_waited_for =
        instruction.immediate == kWaitAll ||
        copy.group + static_cast<std::uint64_t>(instruction.immediate) < committed;
    if (!is_waited_for) return false;
    warp.block().shared().fill(copy.offset, copy.bytes, accessor_of(warp, copy.lane),
                               copy.value.data());
    return true;
  });
}

void decode_copy(Decoder& decoder) {
  Instruction& instruction = decoder.instruction;
  if (!decoder.has("ca") && !decoder.has("cg")) decoder.unknown();
  const AddressOperand to = decoder.address(decoder.operand(0));
  const AddressOperand from = decoder.address(decoder.operand(1));
  const auto base = decoder.find(to.base);
  const int bits = base && base->kind == Symbol::Kind::reg ? base->bits : 64;
  if (bits == 32) instruction.flags |= kNarrowDestination;
  instruction.a = decoder.source(to.base, {'u', bits, false});
  instruction.target = static_cast<std::uint32_t>(to.offset);
  instruction.b = decoder.source(from.base, {'u', 64, false});
  instruction.immediate = from.offset;
  const auto bytes = parse_immediate(decoder.operand(2), {'u', 32, false});
  if (!bytes || (*bytes != 4 && *bytes != 8 && *bytes != 16)) decoder.unknown();
  if (decoder.has("cg") && *bytes != 16) decoder.unknown("cp.async.cg copies 16 bytes");
  instruction.count = static_cast<std::uint8_t>(*bytes);
  if (decoder.operand_count() == 4) {
    instruction.flags |= kZeroFill;
    instruction.c = decoder.source(decoder.operand(3), {'u', 32, false});
  }
  finish(decoder, &run_copy, InstructionClass::memory);
}

void decode_cp(Decoder& decoder) {
  if (!decoder.has("async") || decoder.has("bulk") || decoder.has("mbarrier")) decoder.unknown();
  if (decoder.has("commit_group")) return finish(decoder, &run_commit, InstructionClass::control);
  if (decoder.has("wait_all")) {
    decoder.instruction.immediate = kWaitAll;
    return finish(decoder, &run_wait, InstructionClass::control);
  }
  if (decoder.has("wait_group")) {
    const auto groups = parse_immediate(decoder.operand(0), {'u', 32, false});
    if (!groups) decoder.unknown();
    decoder.instruction.immediate = static_cast<std::int64_t>(*groups);
    return finish(decoder, &run_wait, InstructionClass::control);
  }
  decode_copy(decoder);
}

}  // namespace

void add_asynchronous_copies(DecodeTable& table) { table["cp"] = decode_cp; }

}  // namespace mobius::ptx
