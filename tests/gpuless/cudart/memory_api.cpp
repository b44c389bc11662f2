// Allocation: device memory, pools, and page-locked memory of the host.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/gpuless/cudart/machine.h"
#include "tests/gpuless/cudart/settings.h"

namespace mobius::gpuless {
namespace {

using Lock = Scheduler::Lock;

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

cudaError_t allocate(Machine& machine, void** pointer, std::size_t bytes, int device,
                     bool from_pool) {
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > ptx::DeviceMemory::kMaximumBytes ||
      machine.allocations.in_use(device) + bytes > settings().memory_bytes)
    return cudaErrorMemoryAllocation;
  const auto label = "allocation " + std::to_string(machine.counters.totals.allocations + 1);
  const auto address = machine.memory.allocate(bytes, label);
  machine.allocations.add(address, {bytes, device, from_pool, false});
  machine.counters.allocated(bytes);
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

/// The live block that begins at the pointer; throws Misuse if none does.
Block& block_to_free(Machine& machine, const void* pointer) {
  Block* block = machine.allocations.find(address_of(pointer));
  if (!block)
    throw Misuse(cudaErrorInvalidValue, "not the beginning of an allocation: " +
                                            machine.memory.describe(address_of(pointer)));
  if (block->freed)
    throw Misuse(cudaErrorInvalidValue,
                 "double free of an allocation of " + std::to_string(block->bytes) + " bytes");
  return *block;
}

void account_for_free(Machine& machine, Block& block) {
  machine.allocations.free(block);
  machine.counters.freed(block.bytes);
}

// The handle of a device's pool. Nothing looks behind it.
cudaMemPool_t pool_handle(int device) {
  return reinterpret_cast<cudaMemPool_t>(0x20000 + 16 * static_cast<std::uintptr_t>(device));
}

int device_of_pool(cudaMemPool_t pool) {
  for (int device = 0; device < settings().devices; ++device)
    if (pool == pool_handle(device)) return device;
  throw Misuse(cudaErrorInvalidValue, "not the default memory pool of a device");
}

std::shared_ptr<PinnedMemory> pinned_beginning(Machine& machine, const void* pointer) {
  auto memory = machine.allocations.pinned(pointer);
  if (!memory || memory->begin != pointer)
    throw Misuse(cudaErrorInvalidValue, "not the beginning of page-locked memory, or freed before");
  return memory;
}

cudaError_t pool_attribute(Pool& pool, cudaMemPoolAttr attribute, std::uint64_t*& value) {
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      value = &pool.release_threshold;
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemCurrent:
      value = &pool.reserved;
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
      value = &pool.reserved_high;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemCurrent:
      value = &pool.used;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
      value = &pool.used_high;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t set_pool_attribute(Pool& pool, cudaMemPoolAttr attribute, const void* value) {
  switch (attribute) {
    // Memory is never given out twice, so that when it may be reused makes no difference.
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold:
      std::memcpy(&pool.release_threshold, value, sizeof(pool.release_threshold));
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
      pool.reserved_high = pool.reserved;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
      pool.used_high = pool.used;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace
}  // namespace mobius::gpuless

using mobius::gpuless::call;
using mobius::gpuless::current_device;
using mobius::gpuless::Machine;
using mobius::gpuless::Misuse;
using Lock = mobius::gpuless::Scheduler::Lock;

extern "C" {

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return call(__func__, [&](Machine& machine, Lock&) {
    return mobius::gpuless::allocate(machine, pointer, bytes, current_device(), false);
  });
}

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
  return call(__func__, [&](Machine& machine, Lock&) {
    const int device = machine.stream(stream)->device;
    return mobius::gpuless::allocate(machine, pointer, bytes, device, true);
  });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  return call(__func__, [&](Machine& machine, Lock&) {
    machine.stream(stream);
    return mobius::gpuless::allocate(machine, pointer, bytes, mobius::gpuless::device_of_pool(pool),
                                     true);
  });
}

cudaError_t cudaFree(void* pointer) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    if (!pointer) return cudaSuccess;
    auto& block = mobius::gpuless::block_to_free(machine, pointer);
    machine.wait_for_device(block.device, lock);
    mobius::gpuless::account_for_free(machine, block);
    machine.memory.free(mobius::gpuless::address_of(pointer));
    return cudaSuccess;
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    if (!pointer) return cudaSuccess;
    auto& block = mobius::gpuless::block_to_free(machine, pointer);
    if (!block.from_pool)
      throw Misuse(cudaErrorInvalidValue, "memory that cudaMallocAsync did not allocate");
    mobius::gpuless::account_for_free(machine, block);
    const auto address = mobius::gpuless::address_of(pointer);
    machine.enqueue(machine.stream(stream),
                    {.what = "free of " + std::to_string(block.bytes) + " bytes",
                     .after = {},
                     .run = [&machine, address] { machine.memory.free(address); }},
                    lock);
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call(__func__, [&](Machine& machine, Lock&) {
    const auto bytes = mobius::gpuless::settings().memory_bytes;
    const auto taken = machine.allocations.taken(current_device());
    *free = bytes > taken ? bytes - taken : 0;
    *total = bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return call(__func__, [&](Machine&, Lock&) {
    if (device < 0 || device >= mobius::gpuless::settings().devices) return cudaErrorInvalidDevice;
    *pool = mobius::gpuless::pool_handle(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return cudaDeviceGetDefaultMemPool(pool, device);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return call(__func__, [&](Machine& machine, Lock&) {
    auto& object = machine.allocations.pool(mobius::gpuless::device_of_pool(pool));
    return mobius::gpuless::set_pool_attribute(object, attribute, value);
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return call(__func__, [&](Machine& machine, Lock&) {
    auto& object = machine.allocations.pool(mobius::gpuless::device_of_pool(pool));
    std::uint64_t* field = nullptr;
    const auto error = mobius::gpuless::pool_attribute(object, attribute, field);
    if (error == cudaSuccess) std::memcpy(value, field, sizeof(*field));
    return error;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t bytes) {
  return call(__func__, [&](Machine& machine, Lock&) {
    machine.allocations.pool(mobius::gpuless::device_of_pool(pool)).trim(bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  return call(__func__, [&](Machine& machine, Lock&) {
    *pointer = nullptr;
    if (bytes == 0) return cudaSuccess;
    constexpr std::size_t page = 4096;
    void* memory = std::aligned_alloc(page, (bytes + page - 1) / page * page);
    if (!memory) return cudaErrorMemoryAllocation;
    std::memset(memory, 0xcb, bytes);  // what nobody wrote looks like it
    machine.allocations.pin(memory, bytes, true);
    *pointer = memory;
    return cudaSuccess;
  });
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* pointer) {
  return call(__func__, [&](Machine& machine, Lock&) {
    if (!pointer) return cudaSuccess;
    const auto memory = mobius::gpuless::pinned_beginning(machine, pointer);
    if (!memory->owned) throw Misuse(cudaErrorInvalidValue, "memory that was only registered");
    memory->freed = true;
    machine.allocations.unpin(*memory);
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
  return call(__func__, [&](Machine& machine, Lock&) {
    if (!pointer || bytes == 0) return cudaErrorInvalidValue;
    machine.allocations.pin(pointer, bytes, false);
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return call(__func__, [&](Machine& machine, Lock&) {
    const auto memory = mobius::gpuless::pinned_beginning(machine, pointer);
    if (memory->owned) throw Misuse(cudaErrorInvalidValue, "memory that was never registered");
    memory->freed = true;
    machine.allocations.unpin(*memory);
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return call(__func__, [&](Machine& machine, Lock&) {
    *attributes = {};
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;
    const auto address = mobius::gpuless::address_of(pointer);
    if (machine.memory.is_live(address)) {
      const auto* block = machine.allocations.find(machine.memory.range_of(address).address);
      attributes->type = cudaMemoryTypeDevice;
      attributes->device = block ? block->device : current_device();
      attributes->devicePointer = const_cast<void*>(pointer);
    } else if (machine.allocations.pinned(pointer)) {
      attributes->type = cudaMemoryTypeHost;
      attributes->device = current_device();
      attributes->hostPointer = const_cast<void*>(pointer);
    }
    return cudaSuccess;
  });
}

}  // extern "C"
