#pragma once

#include <array>
#include <cstdint>

#include "tests/gpuless/ptx/lanes.h"
#include "tests/gpuless/ptx/program.h"
#include "tests/gpuless/ptx/warp.h"

namespace mobius::ptx {

// What loads and stores have in common. In their Instruction `a` is the base register, `immediate`
// the offset, `b` the bytes of an element in memory, `c` those of its register, `count` the
// elements, and `operands` their registers.
inline constexpr std::uint16_t kSignExtend = 1;
inline constexpr std::uint16_t kNarrowBase = 2;  // the base register has 32 bits

inline std::uint32_t bytes_of(const Instruction& instruction) {
  return instruction.b * instruction.count;
}

using Addresses = std::array<std::uint64_t, kLanes>;

void compute_addresses(Warp& warp, const Instruction& instruction, Addresses& addresses);

/// Neighbouring lanes whose accesses are the same (step 0) or one behind the other.
struct Stretch {
  int first = 0;
  int count = 0;
  bool is_same = false;
};

/// All active lanes as one stretch of one access behind the other; its count is 0 if they are none.
Stretch find_stretch(const Addresses& addresses, LaneMask active, std::uint32_t bytes);
/// The longest stretch at the start of the lanes, and removes it from them.
Stretch take_stretch(const Addresses& addresses, LaneMask& lanes, std::uint32_t bytes);
/// Whether all active lanes have one address.
bool is_uniform(const Addresses& addresses, LaneMask active);

/// Give a lane's bytes to its registers, and back.
void deliver(Warp& warp, const Instruction& instruction, int lane, const unsigned char* bytes);
void collect(Warp& warp, const Instruction& instruction, int lane, unsigned char* bytes);
/// The same for all lanes of a stretch, whose bytes follow each other or are the same.
void deliver(Warp& warp, const Instruction& instruction, Stretch lanes, const unsigned char* bytes);
void collect(Warp& warp, const Instruction& instruction, Stretch lanes, unsigned char* bytes);

// Requests of a warp.
void load_global(Warp& warp, const Instruction& instruction, LaneMask active,
                 const Addresses& addresses);
void store_global(Warp& warp, const Instruction& instruction, LaneMask active,
                  const Addresses& addresses);
void load_shared(Warp& warp, const Instruction& instruction, LaneMask active,
                 const Addresses& addresses);
void store_shared(Warp& warp, const Instruction& instruction, LaneMask active,
                  const Addresses& addresses);

}  // namespace mobius::ptx
