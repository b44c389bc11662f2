#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/gpuless/ptx/lanes.h"

namespace mobius::ptx {

/// A copy from global to shared memory that a lane has started and not waited for. The bytes are
/// held here meanwhile.
struct AsyncCopy {
  int lane = 0;
  std::uint32_t offset = 0;  // of the destination
  std::uint32_t bytes = 0;
  std::uint64_t group = 0;  // the number of commits of its lane before it
  std::array<unsigned char, 16> value{};
};

/// The copies of a warp. Groups are counted lane by lane.
struct AsyncCopies {
  std::vector<AsyncCopy> pending;
  std::array<std::uint64_t, kLanes> committed{};
};

}  // namespace mobius::ptx
