#include "tests/gpuless/ptx/warp_sync.h"

#include <bit>
#include <string>

namespace mobius::ptx {

LaneMask named_lanes(Warp& warp, const Instruction& instruction, LaneMask active) {
  const LaneMask* const masks = warp.lanes_of<LaneMask>(instruction.target);
  LaneMask named = 0;
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if ((masks[lane] >> lane & 1) == 0)
      warp.fault(instruction, lane, "its member mask does not name its own lane");
    named |= masks[lane];
  }
  return named;
}

LaneMask gather(Warp& warp, const Instruction& instruction, LaneMask active) {
  const LaneMask named = named_lanes(warp, instruction, active);
  const LaneMask exited = named & warp.present() & ~warp.live();
  if (exited != 0) {
    warp.fault(instruction, std::countr_zero(active),
               "its member mask names lane " + std::to_string(std::countr_zero(exited)) +
                   ", which has exited");
  }
  return warp.converge(instruction, active, named);
}

}  // namespace mobius::ptx
