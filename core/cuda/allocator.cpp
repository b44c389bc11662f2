#include "core/cuda/allocator.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "core/cuda/runtime.h"

namespace mobius::cuda {
namespace {

// The address of an empty block too is one of its own.
std::size_t block_bytes(std::size_t bytes) { return std::max<std::size_t>(bytes, 1); }

constexpr double gib = 1 << 30;

// Bytes that the pool holds, in use or not.
std::size_t attribute(cudaMemPool_t pool, cudaMemPoolAttr which) {
  std::uint64_t value = 0;
  if (cudaMemPoolGetAttribute(pool, which, &value) != cudaSuccess) cudaGetLastError();
  return value;
}

}  // namespace

PoolAllocator::PoolAllocator(int index) : index_(index) {
  make_current({DeviceType::cuda, index}, "memory");
  check(cudaDeviceGetDefaultMemPool(&pool_, index), "opening the pool");
  // Otherwise each wait for the stream gives what is free back to the system.
  auto keep_everything = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_everything),
        "opening the pool");
  stream_ = stream();
}

void* PoolAllocator::allocate(std::size_t bytes) {
  void* block = try_allocate(bytes);
  if (!block) {
    release_cache();
    block = try_allocate(bytes);
  }
  if (!block) throw_out_of_memory(bytes);
  const std::lock_guard lock(mutex_);
  current_ += block_bytes(bytes);
  peak_ = std::max(peak_, current_);
  return block;
}

// Null if there is not enough memory.
void* PoolAllocator::try_allocate(std::size_t bytes) {
  void* block = nullptr;
  const cudaError_t status = cudaMallocFromPoolAsync(&block, block_bytes(bytes), pool_, stream_);
  if (status != cudaErrorMemoryAllocation) {
    check(status, "allocation");
    return block;
  }
  cudaGetLastError();  // the next launch must not report it
  return nullptr;
}

void PoolAllocator::deallocate(void* block, std::size_t bytes) noexcept {
  if (!block) return;
  // It fails when the device is lost, or when the runtime has ended before the program did: then
  // the memory is gone anyway.
  if (cudaFreeAsync(block, stream_) != cudaSuccess) cudaGetLastError();
  const std::lock_guard lock(mutex_);
  current_ -= block_bytes(bytes);
}

void PoolAllocator::release_cache() noexcept {
  // What was freed behind a kernel is free for the system only when the kernel has ended.
  if (cudaStreamSynchronize(stream_) != cudaSuccess || cudaMemPoolTrimTo(pool_, 0) != cudaSuccess)
    cudaGetLastError();
}

MemoryStats PoolAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  const std::size_t reserved = attribute(pool_, cudaMemPoolAttrReservedMemCurrent);
  const std::size_t used = attribute(pool_, cudaMemPoolAttrUsedMemCurrent);
  return {.current = current_, .peak = peak_, .cached = reserved - std::min(reserved, used)};
}

void PoolAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = current_;
}

std::optional<std::size_t> PoolAllocator::available() const {
  return of_device().free + stats().cached;
}

PoolAllocator::Memory PoolAllocator::of_device() const {
  make_current({DeviceType::cuda, index_}, "memory");
  Memory memory;
  check(cudaMemGetInfo(&memory.free, &memory.total), "asking for its size");
  return memory;
}

void PoolAllocator::throw_out_of_memory(std::size_t bytes) const {
  const Memory device = of_device();
  const std::string advice = fmt::format(
      "; the device has {:.1f} GiB, of which {:.1f} GiB are free. What helps: a smaller "
      "train.batch_size, more train.accumulation_steps, train.precision: bf16, shorter sequences, "
      "or ending another process that holds memory there (nvidia-smi lists them)",
      static_cast<double>(device.total) / gib, static_cast<double>(device.free) / gib);
  throw OutOfMemory(bytes, stats(), fmt::format("device cuda:{}: ", index_), advice);
}

}  // namespace mobius::cuda
