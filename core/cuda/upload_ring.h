// Pinned host memory through which copies to a device are queued.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <mutex>

namespace mobius::cuda {

/// A ring of pinned buffers. What is to be copied is written to the buffer in front, from where the
/// device fetches it when the stream gets there. A full buffer is used again when all its copies
/// are done; until then there are more buffers, up to a bound. Thread-safe.
class UploadRing {
 public:
  /// Queues a copy on the stream, which must always be the same one. The host memory may change as
  /// soon as the call returns.
  void upload(const void* host, void* device, std::size_t bytes, cudaStream_t stream);

 private:
  struct Buffer {
    std::byte* memory = nullptr;
    std::size_t used = 0;
    cudaEvent_t copied = nullptr;  // recorded behind the last copy of a full buffer
  };

  void upload_part(const std::byte* host, std::byte* device, std::size_t bytes,
                   cudaStream_t stream);
  void bring_empty_buffer_to_front(cudaStream_t stream);
  bool oldest_is_copied() const;
  static Buffer make_buffer();

  std::mutex mutex_;
  std::deque<Buffer> buffers_;  // the one in use, then the full ones from the newest to the oldest
};

}  // namespace mobius::cuda
