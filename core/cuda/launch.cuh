// Launching kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "core/cuda/runtime.h"
#include "core/round.h"

namespace mobius::cuda {

constexpr int warp_size = 32;
/// Threads of a block where nothing speaks for another number.
constexpr int default_block = 256;

struct LaunchShape {
  dim3 grid;
  dim3 block = default_block;
  std::size_t shared_bytes = 0;  // dynamic shared memory
};

/// One thread for each of n elements; a block's last threads may have none.
inline LaunchShape for_elements(std::int64_t n, int block = default_block) {
  return {.grid = dim3(static_cast<unsigned>(ceil_div(n, std::int64_t{block}))),
          .block = dim3(static_cast<unsigned>(block))};
}
/// One warp for each of n rows, several warps a block.
inline LaunchShape for_warps(std::int64_t n, int block = default_block) {
  return for_elements(n * warp_size, block);
}

/// Queues kernel(arguments...) on the stream of the current device. An empty grid launches nothing.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape,
            const Arguments&... arguments) {
  constexpr std::size_t without_leave = 48 << 10;  // a block may have this much anyway
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  if (shape.shared_bytes > without_leave)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shape.shared_bytes)),
          "kernel launch");
  kernel<<<shape.grid, shape.block, shape.shared_bytes, stream()>>>(
      static_cast<Parameters>(arguments)...);
  check(cudaGetLastError(), "kernel launch");
}

}  // namespace mobius::cuda
