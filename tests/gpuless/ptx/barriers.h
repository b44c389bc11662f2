#pragma once

#include <cstdint>

#include "tests/gpuless/ptx/program.h"
#include "tests/gpuless/ptx/warp.h"

namespace mobius::ptx {

// Instruction::flags of barriers of the block.
inline constexpr std::uint16_t kAlignedBarrier = 1;  // all lanes of a warp arrive together
inline constexpr std::uint16_t kReduceCount = 2;
inline constexpr std::uint16_t kReduceAnd = 4;
inline constexpr std::uint16_t kReduceOr = 8;
inline constexpr std::uint16_t kReduction = kReduceCount | kReduceAnd | kReduceOr;

inline LaneMask& predicate_in(Frame& frame, std::uint32_t offset) {
  return *reinterpret_cast<LaneMask*>(frame.registers.get() + offset);
}

/// Writes the result of a barrier with a reduction for the lanes of a group. `count` of `threads`
/// threads brought a true predicate.
void give_reduction(Group& group, std::uint32_t count, std::uint32_t threads);

}  // namespace mobius::ptx
