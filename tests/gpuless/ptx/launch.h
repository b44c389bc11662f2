#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/gpuless/ptx/counters.h"
#include "tests/gpuless/ptx/device_memory.h"
#include "tests/gpuless/ptx/fault.h"
#include "tests/gpuless/ptx/module.h"

namespace mobius::ptx {

struct Dim3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

struct LaunchConfig {
  Dim3 grid;
  Dim3 block;
  std::uint32_t dynamic_shared_bytes = 0;
  /// What the caller raised the limit of dynamic shared memory to
  /// (cudaFuncAttributeMaxDynamicSharedMemorySize).
  std::uint32_t dynamic_shared_limit = 48 * 1024;
  /// The parameters at their offsets, kernel.parameter_bytes in all.
  std::vector<std::byte> parameters;
  /// Chooses the order of blocks and of the warps of a block.
  std::uint64_t seed = 0;
  /// Threads that blocks are spread over; 0 takes those of the processor.
  int threads = 0;
  /// Backward branches of one block, and a kernel that needs more counts as one that never ends.
  std::uint64_t maximum_branches = std::uint64_t{1} << 32;
};

/// Runs a kernel to its end, with every access checked. Throws a Fault at the first thing that is
/// wrong; what the kernel wrote until then stays written. Launches of several threads may run at
/// once.
LaunchCounters launch(const Kernel& kernel, DeviceMemory& memory, const LaunchConfig& config);

}  // namespace mobius::ptx
