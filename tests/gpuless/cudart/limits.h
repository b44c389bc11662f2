// What a device of the imitated compute capability can do, from NVIDIA's tables.
#pragma once

#include <array>

#include "tests/gpuless/cudart/settings.h"

namespace mobius::gpuless {

struct DeviceLimits {
  int warp = 32;
  int threads_per_block = 1024;
  int threads_per_multiprocessor = 2048;
  int blocks_per_multiprocessor = 32;
  int registers = 65536;  // of a multiprocessor, and of a block
  std::array<unsigned, 3> block = {1024, 1024, 64};
  std::array<unsigned, 3> grid = {2147483647, 65535, 65535};
  // Shared memory, in bytes. A kernel gets more than the first only with leave
  // (cudaFuncAttributeMaxDynamicSharedMemorySize).
  int shared_per_block = 48 << 10;
  int shared_per_block_with_leave;
  int shared_per_multiprocessor;
  int shared_reserved_per_block = 1 << 10;
};

inline DeviceLimits device_limits() {
  const int kibibytes = settings().capability >= 90 ? 228 : 164;
  return {.shared_per_block_with_leave = (kibibytes - 1) << 10,
          .shared_per_multiprocessor = kibibytes << 10};
}

}  // namespace mobius::gpuless
