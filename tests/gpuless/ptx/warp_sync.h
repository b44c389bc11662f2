#pragma once

#include <string_view>

#include "tests/gpuless/ptx/decoder.h"
#include "tests/gpuless/ptx/lanes.h"
#include "tests/gpuless/ptx/program.h"
#include "tests/gpuless/ptx/warp.h"

namespace mobius::ptx {

// Instructions with a member mask, such as shfl.sync. The place of the mask is Instruction::target.

inline void set_member_mask(Decoder& decoder, std::string_view operand) {
  decoder.instruction.target = decoder.source(operand, {'u', 32, false});
}

inline LaneMask member_mask(Warp& warp, const Instruction& instruction, int lane) {
  return warp.lanes_of<LaneMask>(instruction.target)[lane];
}

/// The lanes that the masks of the active lanes name. Throws a Fault for a mask that leaves its own
/// lane out.
LaneMask named_lanes(Warp& warp, const Instruction& instruction, LaneMask active);

/// Returns the lanes that execute the instruction together, once all that their masks name are
/// there; none if they have to wait. Throws a Fault for a mask that leaves its own lane out, or
/// names a lane that has exited.
LaneMask gather(Warp& warp, const Instruction& instruction, LaneMask active);

}  // namespace mobius::ptx
