// What the stand-ins of CUDA's other libraries need from that of its runtime.
#pragma once

#include <driver_types.h>

#include <functional>
#include <string>

#include "tests/gpuless/ptx/device_memory.h"

namespace mobius::gpuless {

/// Queues work on a stream, as a library does with kernels of its own. `what` names it in messages.
/// A ptx::Fault that the work throws is reported as one of a kernel is.
cudaError_t enqueue_library_call(cudaStream_t stream, std::string what,
                                 std::function<void(ptx::DeviceMemory&)> work);

}  // namespace mobius::gpuless
