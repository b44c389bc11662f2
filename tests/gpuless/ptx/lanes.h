#pragma once

#include <bit>
#include <cstdint>

namespace mobius::ptx {

/// A bit for each lane of a warp.
using LaneMask = std::uint32_t;
inline constexpr int kLanes = 32;
inline constexpr LaneMask kAllLanes = ~LaneMask{0};

/// Calls f(lane) for the active lanes. With all lanes active this is a plain loop, which the
/// compiler vectorises.
template <typename Function>
inline void for_lanes(LaneMask active, Function&& f) {
  if (active == kAllLanes) {
#pragma GCC ivdep
    for (int lane = 0; lane < kLanes; ++lane) f(lane);
  } else {
    for (LaneMask rest = active; rest != 0; rest &= rest - 1) f(std::countr_zero(rest));
  }
}

}  // namespace mobius::ptx
