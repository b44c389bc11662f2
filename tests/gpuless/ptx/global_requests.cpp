// Requests of a warp to global memory.

#include <bit>

#include "tests/gpuless/ptx/block.h"
#include "tests/gpuless/ptx/memory_path.h"
#include "tests/gpuless/ptx/memory_requests.h"

namespace mobius::ptx {

namespace {

void count(GlobalTraffic& traffic, const Addresses& addresses, LaneMask active, Stretch run,
           std::uint32_t bytes) {
  ++traffic.requests;
  traffic.bytes += static_cast<std::uint64_t>(std::popcount(active)) * bytes;
  if (run.count > 0) {
    const std::uint64_t start = addresses[static_cast<std::size_t>(run.first)];
    traffic.sectors +=
        (start + static_cast<std::uint64_t>(run.count) * bytes - 1) / 32 - start / 32 + 1;
  } else {
    traffic.sectors += count_sectors(addresses.data(), active);
  }
}

bool is_race(const AccessFault& fault) { return fault.kind >= AccessFault::Kind::read_after_write; }

// A run of lanes is checked at once. A race is reported here, where all its bytes are seen
// together; anything else that is wrong shows again lane by lane.
template <Access kAccess>
unsigned char* access_run(Warp& warp, const Instruction& instruction, const Addresses& addresses,
                          Stretch run, std::uint32_t bytes) {
  if (run.count == 0) return nullptr;
  const std::uint64_t start = addresses[static_cast<std::size_t>(run.first)];
  if ((start & (bytes - 1)) != 0) return nullptr;
  AccessFault fault;
  unsigned char* const place = warp.block().global().access<kAccess>(
      start, static_cast<std::uint32_t>(run.count) * bytes, fault);
  if (place == nullptr && is_race(fault)) {
    const std::uint64_t distance = fault.address > start ? (fault.address - start) / bytes : 0;
    report(warp, instruction, run.first + static_cast<int>(distance), fault, bytes,
           kAccess == Access::read ? "reads" : "writes");
  }
  return place;
}

bool run_of(LaneMask active) {
  return std::has_single_bit((std::uint64_t{active} >> std::countr_zero(active)) + 1);
}

}  // namespace

void load_global(Warp& warp, const Instruction& instruction, LaneMask active,
                 const Addresses& addresses) {
  const std::uint32_t bytes = bytes_of(instruction);
  const Stretch run = find_stretch(addresses, active, bytes);
  count(warp.block().counters().global_reads, addresses, active, run, bytes);
  if (const unsigned char* const place =
          access_run<Access::read>(warp, instruction, addresses, run, bytes)) {
    deliver(warp, instruction, run, place);
    return;
  }
  alignas(16) unsigned char value[16];
  if (is_uniform(addresses, active)) {
    const int first = std::countr_zero(active);
    read_global(warp, instruction, first, addresses[static_cast<std::size_t>(first)], bytes, value);
    if (run_of(active))
      return deliver(warp, instruction, Stretch{first, std::popcount(active), true}, value);
    for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
      deliver(warp, instruction, std::countr_zero(rest), value);
    }
    return;
  }
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    read_global(warp, instruction, lane, addresses[static_cast<std::size_t>(lane)], bytes, value);
    deliver(warp, instruction, lane, value);
  }
}

void store_global(Warp& warp, const Instruction& instruction, LaneMask active,
                  const Addresses& addresses) {
  const std::uint32_t bytes = bytes_of(instruction);
  const Stretch run = find_stretch(addresses, active, bytes);
  count(warp.block().counters().global_writes, addresses, active, run, bytes);
  if (unsigned char* const place =
          access_run<Access::write>(warp, instruction, addresses, run, bytes)) {
    collect(warp, instruction, run, place);
    return;
  }
  alignas(16) unsigned char value[16];
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    collect(warp, instruction, lane, value);
    write_global(warp, instruction, lane, addresses[static_cast<std::size_t>(lane)], bytes, value);
  }
}

}  // namespace mobius::ptx
