#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace mobius::ptx {

enum class InstructionClass : std::uint8_t {
  fma,         // f32 and half-precision arithmetic
  fp64,        // f64 arithmetic
  tensor,      // mma
  special,     // ex2, lg2, rcp, rsq, sqrt, sin, cos, tanh
  integer,     // integers, logic, moves, selections, comparisons
  conversion,  // cvt
  control,     // branches, calls, barriers, votes and shuffles
  memory,      // loads, stores, atomics, copies, matrix loads
};
inline constexpr std::size_t kInstructionClasses = 8;

/// How often something ran: for warps, and for the active lanes in them.
struct InstructionCount {
  std::uint64_t warps = 0;
  std::uint64_t lanes = 0;
};

/// Requests of warps to global or shared memory. A request is one executed instruction of a warp.
struct GlobalTraffic {
  std::uint64_t requests = 0;
  std::uint64_t sectors = 0;  // distinct 32-byte sectors, summed over requests
  std::uint64_t bytes = 0;    // asked for by the lanes
};
struct SharedTraffic {
  std::uint64_t requests = 0;
  std::uint64_t wavefronts = 0;        // passes that the 32 banks need
  std::uint64_t ideal_wavefronts = 0;  // passes that the bytes alone would need
};

/// What a launch did, in the units of a device.
struct LaunchCounters {
  std::array<InstructionCount, kInstructionClasses> instructions{};
  GlobalTraffic global_reads;
  GlobalTraffic global_writes;
  SharedTraffic shared_reads;
  SharedTraffic shared_writes;
  std::uint64_t atomics = 0;              // requests, shared and global
  std::uint64_t matrix_loads = 0;         // ldmatrix; also among shared_reads
  std::uint64_t asynchronous_copies = 0;  // cp.async; also among global_reads and shared_writes
  std::uint64_t block_barriers = 0;       // arrivals of warps
  std::uint64_t blocks = 0;

  const InstructionCount& operator[](InstructionClass c) const {
    return instructions[static_cast<std::size_t>(c)];
  }
  std::uint64_t warp_instructions() const;
  std::uint64_t lane_instructions() const;
  LaunchCounters& operator+=(const LaunchCounters& other);
};

}  // namespace mobius::ptx
