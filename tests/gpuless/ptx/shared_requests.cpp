// Requests of a warp to shared memory, stretch by stretch: transposed accesses fall apart into
// lanes, others into few.

#include <bit>

#include "tests/gpuless/ptx/block.h"
#include "tests/gpuless/ptx/memory_path.h"
#include "tests/gpuless/ptx/memory_requests.h"

namespace mobius::ptx {

namespace {

void count(SharedTraffic& traffic, const Addresses& offsets, LaneMask active, Stretch run,
           std::uint32_t bytes) {
  ++traffic.requests;
  const std::uint64_t ideal =
      (static_cast<std::uint64_t>(std::popcount(active)) * bytes + 127) / 128;
  traffic.ideal_wavefronts += ideal;
  const bool is_full = run.count == kLanes;
  traffic.wavefronts += is_full ? ideal : count_wavefronts(offsets.data(), active, bytes);
}

[[noreturn]] void report_shared(Warp& warp, const Instruction& instruction,
                                const SharedFault& fault, std::uint32_t bytes, const char* verb) {
  report(warp, instruction, static_cast<int>(fault.accessor % kLanes), fault, bytes, verb);
}

}  // namespace

void load_shared(Warp& warp, const Instruction& instruction, LaneMask active,
                 const Addresses& addresses) {
  const std::uint32_t bytes = bytes_of(instruction);
  count(warp.block().counters().shared_reads, addresses, active,
        find_stretch(addresses, active, bytes), bytes);
  SharedMemory& shared = warp.block().shared();
  SharedFault fault;
  for (LaneMask rest = active; rest != 0;) {
    const Stretch run = take_stretch(addresses, rest, bytes);
    const std::uint64_t address = addresses[static_cast<std::size_t>(run.first)];
    check_alignment(warp, instruction, run.first, address, bytes);
    const std::uint32_t offset = shared_offset(address);
    const Accessor first = accessor_of(warp, run.first);
    const bool is_right =
        run.is_same
            ? shared.read_together(offset, bytes, first, fault)
            : shared.read(offset, bytes, static_cast<std::uint32_t>(run.count), first, fault);
    if (!is_right) report_shared(warp, instruction, fault, bytes, "reads");
    deliver(warp, instruction, run, shared.data() + offset);
  }
}

void store_shared(Warp& warp, const Instruction& instruction, LaneMask active,
                  const Addresses& addresses) {
  const std::uint32_t bytes = bytes_of(instruction);
  count(warp.block().counters().shared_writes, addresses, active,
        find_stretch(addresses, active, bytes), bytes);
  SharedMemory& shared = warp.block().shared();
  SharedFault fault;
  alignas(16) unsigned char values[16 * kLanes];
  for (LaneMask rest = active; rest != 0;) {
    Stretch run = take_stretch(addresses, rest, bytes);
    if (run.is_same) {
      // Lanes that write the same place write one after the other.
      rest |= ((LaneMask{1} << (run.count - 1)) - 1) << (run.first + 1);
      run = {run.first, 1, false};
    }
    const std::uint64_t address = addresses[static_cast<std::size_t>(run.first)];
    check_alignment(warp, instruction, run.first, address, bytes);
    collect(warp, instruction, run, values);
    if (!shared.write(shared_offset(address), bytes, static_cast<std::uint32_t>(run.count),
                      accessor_of(warp, run.first), values, fault)) {
      report_shared(warp, instruction, fault, bytes, "writes");
    }
  }
}

}  // namespace mobius::ptx
