// Devices: how many there are, which one a thread uses, and what they can do.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "tests/gpuless/cudart/limits.h"
#include "tests/gpuless/cudart/machine.h"
#include "tests/gpuless/cudart/settings.h"

namespace mobius::gpuless {
namespace {

constexpr int cuda_version = CUDART_VERSION;

bool is_device(int device) { return device >= 0 && device < settings().devices; }

cudaDeviceProp properties() {
  const DeviceLimits limits = device_limits();
  cudaDeviceProp result{};
  std::snprintf(result.name, sizeof(result.name), "gpuless (interpreted PTX)");
  result.totalGlobalMem = settings().memory_bytes;
  result.sharedMemPerBlock = limits.shared_per_block;
  result.sharedMemPerBlockOptin = limits.shared_per_block_with_leave;
  result.sharedMemPerMultiprocessor = limits.shared_per_multiprocessor;
  result.reservedSharedMemPerBlock = limits.shared_reserved_per_block;
  result.regsPerBlock = result.regsPerMultiprocessor = limits.registers;
  result.warpSize = limits.warp;
  result.memPitch = 0x7fffffff;
  result.maxThreadsPerBlock = limits.threads_per_block;
  result.maxThreadsPerMultiProcessor = limits.threads_per_multiprocessor;
  result.maxBlocksPerMultiProcessor = limits.blocks_per_multiprocessor;
  for (int i = 0; i < 3; ++i) {
    result.maxThreadsDim[i] = static_cast<int>(limits.block[i]);
    result.maxGridSize[i] = static_cast<int>(limits.grid[i]);
  }
  result.totalConstMem = 64 << 10;
  result.major = settings().capability / 10;
  result.minor = settings().capability % 10;
  result.multiProcessorCount = settings().multiprocessors;
  result.l2CacheSize = 40 << 20;
  result.concurrentKernels = 1;
  result.asyncEngineCount = 2;
  result.unifiedAddressing = 1;
  result.streamPrioritiesSupported = 1;
  result.memoryPoolsSupported = 1;
  return result;
}

/// False for an attribute that nobody has asked for yet.
bool attribute(cudaDeviceAttr attribute, int device, int& value) {
  const DeviceLimits limits = device_limits();
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      value = limits.threads_per_block;
      return true;
    case cudaDevAttrMaxBlockDimX:
      value = static_cast<int>(limits.block[0]);
      return true;
    case cudaDevAttrMaxBlockDimY:
      value = static_cast<int>(limits.block[1]);
      return true;
    case cudaDevAttrMaxBlockDimZ:
      value = static_cast<int>(limits.block[2]);
      return true;
    case cudaDevAttrMaxGridDimX:
      value = static_cast<int>(limits.grid[0]);
      return true;
    case cudaDevAttrMaxGridDimY:
      value = static_cast<int>(limits.grid[1]);
      return true;
    case cudaDevAttrMaxGridDimZ:
      value = static_cast<int>(limits.grid[2]);
      return true;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      value = limits.shared_per_block;
      return true;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      value = limits.shared_per_block_with_leave;
      return true;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      value = limits.shared_per_multiprocessor;
      return true;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      value = limits.shared_reserved_per_block;
      return true;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      value = limits.registers;
      return true;
    case cudaDevAttrWarpSize:
      value = limits.warp;
      return true;
    case cudaDevAttrMultiProcessorCount:
      value = settings().multiprocessors;
      return true;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      value = limits.threads_per_multiprocessor;
      return true;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      value = limits.blocks_per_multiprocessor;
      return true;
    case cudaDevAttrComputeCapabilityMajor:
      value = settings().capability / 10;
      return true;
    case cudaDevAttrComputeCapabilityMinor:
      value = settings().capability % 10;
      return true;
    case cudaDevAttrL2CacheSize:
      value = 40 << 20;
      return true;
    case cudaDevAttrClockRate:
      value = 1'410'000;
      return true;
    case cudaDevAttrMemoryClockRate:
      value = 1'215'000;
      return true;
    case cudaDevAttrGlobalMemoryBusWidth:
      value = 5120;
      return true;
    case cudaDevAttrPciBusId:
      value = device + 1;
      return true;
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrStreamPrioritiesSupported:
      value = 1;
      return true;
    case cudaDevAttrAsyncEngineCount:
      value = 2;
      return true;
    // What the imitation lacks, a program must not rely on.
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
      value = 0;
      return true;
    default:
      return false;
  }
}

}  // namespace
}  // namespace mobius::gpuless

using mobius::gpuless::call;
using mobius::gpuless::Machine;
using mobius::gpuless::settings;
using Lock = mobius::gpuless::Scheduler::Lock;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return call(__func__, [&](Machine&, Lock&) {
    *count = settings().devices;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call(__func__, [&](Machine&, Lock&) {
    *device = mobius::gpuless::current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call(__func__, [&](Machine&, Lock&) {
    if (!mobius::gpuless::is_device(device)) return cudaErrorInvalidDevice;
    mobius::gpuless::set_current_device(device);
    return cudaSuccess;
  });
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return call(__func__, [&](Machine&, Lock&) {
    return mobius::gpuless::is_device(device) ? cudaSuccess : cudaErrorInvalidDevice;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call(__func__, [&](Machine&, Lock&) {
    if (!mobius::gpuless::is_device(device)) return cudaErrorInvalidDevice;
    *properties = mobius::gpuless::properties();
    properties->pciBusID = device + 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call(__func__, [&](Machine&, Lock&) -> cudaError_t {
    if (!mobius::gpuless::is_device(device)) return cudaErrorInvalidDevice;
    if (mobius::gpuless::attribute(attribute, device, *value)) return cudaSuccess;
    throw mobius::gpuless::Misuse(cudaErrorNotSupported, "attribute " + std::to_string(attribute) +
                                                             " is not imitated: add it");
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return call(__func__, [&](Machine&, Lock&) {
    if (!mobius::gpuless::is_device(device)) return cudaErrorInvalidDevice;
    const int needed = std::snprintf(id, static_cast<std::size_t>(length), "0000:%02X:00.0",
                                     static_cast<unsigned>(device + 1));
    return needed < length ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call(__func__, [](Machine& machine, Lock& lock) {
    machine.wait_for_device(mobius::gpuless::current_device(), lock);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call(__func__, [&](Machine&, Lock&) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call(__func__, [&](Machine&, Lock&) {
    if (!mobius::gpuless::is_device(device) || !mobius::gpuless::is_device(peer))
      return cudaErrorInvalidDevice;
    *can = device != peer;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = mobius::gpuless::cuda_version;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  // As the real one: 0 where there is no driver.
  const bool has_driver = settings().unavailable != cudaErrorInsufficientDriver;
  *version = has_driver ? mobius::gpuless::cuda_version : 0;
  return cudaSuccess;
}

}  // extern "C"
