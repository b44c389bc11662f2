// Registration of the program's code, and launches of its kernels.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/gpuless/cudart/limits.h"
#include "tests/gpuless/cudart/machine.h"
#include "tests/gpuless/cudart/settings.h"
#include "tests/gpuless/ptx/launch.h"

namespace mobius::gpuless {
namespace {

using Lock = Scheduler::Lock;

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
// What kernel<<<...>>>() leaves for the function that nvcc generates for the kernel.
thread_local std::vector<CallConfiguration> configurations;

LoadedKernel& kernel_of(Machine& machine, const void* function) {
  LoadedKernel* kernel = machine.registry.kernel(function, current_device());
  if (!kernel) throw Misuse(cudaErrorInvalidDeviceFunction, "not a kernel of the program");
  return *kernel;
}

cudaError_t check_shape(const LoadedKernel& kernel, dim3 grid, dim3 block,
                        std::size_t shared_bytes) {
  const DeviceLimits limits = device_limits();
  const auto fits = [](dim3 shape, const std::array<unsigned, 3>& most) {
    return shape.x > 0 && shape.y > 0 && shape.z > 0 && shape.x <= most[0] && shape.y <= most[1] &&
           shape.z <= most[2];
  };
  const auto threads = std::uint64_t{block.x} * block.y * block.z;
  if (!fits(grid, limits.grid) || !fits(block, limits.block) ||
      threads > static_cast<unsigned>(limits.threads_per_block))
    return cudaErrorInvalidConfiguration;
  if (threads > kernel.code->max_threads) return cudaErrorLaunchOutOfResources;
  return shared_bytes > kernel.shared_limit ? cudaErrorInvalidValue : cudaSuccess;
}

/// The arguments as the kernel reads them: they may change as soon as the launch returns.
std::vector<std::byte> packed(const ptx::Kernel& kernel, void** arguments) {
  std::vector<std::byte> result(kernel.parameter_bytes);
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const auto& parameter = kernel.parameters[i];
    std::memcpy(result.data() + parameter.offset, arguments[i], parameter.bytes);
  }
  return result;
}

cudaError_t launch(const void* function, const CallConfiguration& shape, void** arguments) {
  return call("cudaLaunchKernel", [&](Machine& machine, Lock& lock) -> cudaError_t {
    const LoadedKernel& kernel = kernel_of(machine, function);
    const auto stream = machine.stream(shape.stream);
    if (stream->device != current_device())
      throw Misuse(cudaErrorInvalidResourceHandle, "the stream is one of another device");
    if (const auto error = check_shape(kernel, shape.grid, shape.block, shape.shared_bytes))
      return error;

    ptx::LaunchConfig config{
        .grid = {shape.grid.x, shape.grid.y, shape.grid.z},
        .block = {shape.block.x, shape.block.y, shape.block.z},
        .dynamic_shared_bytes = static_cast<std::uint32_t>(shape.shared_bytes),
        .dynamic_shared_limit = static_cast<std::uint32_t>(kernel.shared_limit),
        .parameters = packed(*kernel.code, arguments),
        .seed = machine.scheduler.draw()};
    const auto run = [&machine, &kernel, config = std::move(config)] {
      if (machine.lost_at_this_launch()) return;
      machine.counters.add_launch(kernel.name, ptx::launch(*kernel.code, machine.memory, config));
    };
    machine.enqueue(stream, {.what = "kernel " + kernel.name, .after = {}, .run = run}, lock);
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace mobius::gpuless

using mobius::gpuless::call;
using mobius::gpuless::FatBinary;
using mobius::gpuless::Machine;
using Lock = mobius::gpuless::Scheduler::Lock;

extern "C" {

// What the code calls that nvcc adds to a program; its declarations are in crt/host_runtime.h.

void** __cudaRegisterFatBinary(void* wrapper) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  return reinterpret_cast<void**>(machine.registry.add_binary(wrapper));
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** binary) {
  // The program ends. What is still queued runs first, so that its faults are seen.
  Machine& machine = Machine::get();
  Lock lock(machine.mutex);
  for (int device = 0; device < mobius::gpuless::settings().devices; ++device)
    machine.scheduler.run_all(device, lock);
  machine.registry.remove_binary(reinterpret_cast<FatBinary*>(binary));
}

void __cudaRegisterFunction(void** binary, const char* host_function, char*, const char* name, int,
                            uint3*, uint3*, dim3*, dim3*, int*) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  machine.registry.add_kernel(reinterpret_cast<FatBinary*>(binary), host_function, name);
}

void __cudaRegisterVar(void** binary, char* host_variable, char*, const char* name, int,
                       std::size_t, int, int) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  machine.registry.add_variable(reinterpret_cast<FatBinary*>(binary), host_variable, name);
}

char __cudaInitModule(void**) { return 1; }

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes,
                                     cudaStream_t stream) {
  mobius::gpuless::configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes,
                                       void* stream) {
  auto& stack = mobius::gpuless::configurations;
  if (stack.empty()) return cudaErrorInvalidConfiguration;
  *grid = stack.back().grid;
  *block = stack.back().block;
  *shared_bytes = stack.back().shared_bytes;
  *static_cast<cudaStream_t*>(stream) = stack.back().stream;
  stack.pop_back();
  return cudaSuccess;
}

/// The handle of a kernel is the address of its function on the host.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return __cudaGetKernel(kernel, function);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared_bytes, cudaStream_t stream) {
  return mobius::gpuless::launch(kernel, {grid, block, shared_bytes, stream}, arguments);
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  return mobius::gpuless::launch(function, {grid, block, shared_bytes, stream}, arguments);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const auto id = config->attrs[i].id;
    // A priority is a wish. Anything else changes what the kernel may do.
    if (id != cudaLaunchAttributeIgnore && id != cudaLaunchAttributePriority)
      return call(__func__, [&](Machine&, Lock&) -> cudaError_t {
        throw mobius::gpuless::Misuse(
            cudaErrorNotSupported, "launch attribute " + std::to_string(id) + " is not imitated");
      });
  }
  return mobius::gpuless::launch(
      function, {config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream},
      arguments);
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return call(__func__, [&](Machine& machine, Lock&) -> cudaError_t {
    auto& kernel = mobius::gpuless::kernel_of(machine, function);
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
      throw mobius::gpuless::Misuse(cudaErrorNotSupported,
                                    "attribute " + std::to_string(attribute) + " is not imitated");
    const int most = mobius::gpuless::device_limits().shared_per_block_with_leave -
                     static_cast<int>(kernel.code->static_shared_bytes);
    if (value < 0 || value > most) return cudaErrorInvalidValue;
    kernel.shared_limit = static_cast<std::size_t>(value);
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return call(__func__, [&](Machine& machine, Lock&) {
    const auto& kernel = mobius::gpuless::kernel_of(machine, function);
    *attributes = {};
    attributes->sharedSizeBytes = kernel.code->static_shared_bytes;
    attributes->maxThreadsPerBlock = std::min(static_cast<int>(kernel.code->max_threads),
                                              mobius::gpuless::device_limits().threads_per_block);
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(kernel.shared_limit);
    attributes->ptxVersion = mobius::gpuless::settings().capability;
    attributes->binaryVersion = mobius::gpuless::settings().capability;
    return cudaSuccess;
  });
}

/// From threads and shared memory alone: how many registers a kernel takes, ptxas decides.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int block_threads, std::size_t shared_bytes, unsigned) {
  return call(__func__, [&](Machine& machine, Lock&) {
    const auto& kernel = mobius::gpuless::kernel_of(machine, function);
    const auto limits = mobius::gpuless::device_limits();
    if (block_threads <= 0) return cudaErrorInvalidValue;
    *blocks = 0;
    if (block_threads > limits.threads_per_block ||
        block_threads > static_cast<int>(kernel.code->max_threads) ||
        shared_bytes > kernel.shared_limit)
      return cudaSuccess;
    const int warps = (block_threads + limits.warp - 1) / limits.warp;
    const auto shared = static_cast<int>(kernel.code->static_shared_bytes + shared_bytes) +
                        limits.shared_reserved_per_block;
    *blocks = std::min({limits.blocks_per_multiprocessor,
                        limits.threads_per_multiprocessor / (warps * limits.warp),
                        limits.shared_per_multiprocessor / shared});
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int block_threads,
                                                          std::size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_threads,
                                                                shared_bytes, 0);
}

}  // extern "C"
