// The memory of a CUDA device: the driver's stream-ordered pool.
#pragma once

#include <cuda_runtime_api.h>

#include <mutex>
#include <optional>

#include "core/allocator.h"

namespace mobius::cuda {

/// Allocates and frees in the order of the device's stream: memory that is freed behind a kernel
/// serves the next request without waiting for it. The driver's pool keeps what was freed, and
/// every tensor's bounds are its own, for compute-sanitizer. Blocks are at least 256-byte aligned.
///
/// A block may be freed by any thread, at the end of the program, and after the device was lost.
class PoolAllocator final : public Allocator {
 public:
  /// Makes the device current.
  explicit PoolAllocator(int index);

  void* allocate(std::size_t bytes) override;
  void deallocate(void* block, std::size_t bytes) noexcept override;
  void release_cache() noexcept override;

  MemoryStats stats() const override;
  void reset_peak() override;
  std::optional<std::size_t> available() const override;

 private:
  void* try_allocate(std::size_t bytes);
  struct Memory {
    std::size_t free = 0, total = 0;
  };
  Memory of_device() const;
  [[noreturn]] void throw_out_of_memory(std::size_t bytes) const;

  const int index_;
  cudaMemPool_t pool_ = nullptr;
  cudaStream_t stream_ = nullptr;

  mutable std::mutex mutex_;  // of the counters
  std::size_t current_ = 0, peak_ = 0;
};

}  // namespace mobius::cuda
