#include "core/cuda/upload_ring.h"

#include <algorithm>
#include <cstring>

#include "core/cuda/runtime.h"
#include "core/round.h"

namespace mobius::cuda {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;
constexpr std::size_t most_buffers = 64;
// Copies start where a device reads at full speed.
constexpr std::size_t alignment = 64;

}  // namespace

void UploadRing::upload(const void* host, void* device, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const auto* from = static_cast<const std::byte*>(host);
  auto* to = static_cast<std::byte*>(device);
  for (std::size_t done = 0; done < bytes; done += buffer_bytes)
    upload_part(from + done, to + done, std::min(buffer_bytes, bytes - done), stream);
}

void UploadRing::upload_part(const std::byte* host, std::byte* device, std::size_t bytes,
                             cudaStream_t stream) {
  if (buffers_.empty() || buffers_.front().used + bytes > buffer_bytes)
    bring_empty_buffer_to_front(stream);
  Buffer& buffer = buffers_.front();
  std::byte* const pinned = buffer.memory + buffer.used;
  std::memcpy(pinned, host, bytes);
  buffer.used = round_up(buffer.used + bytes, alignment);
  check(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, stream), "copy to device");
}

void UploadRing::bring_empty_buffer_to_front(cudaStream_t stream) {
  if (!buffers_.empty()) check(cudaEventRecord(buffers_.front().copied, stream), "copy to device");
  if (buffers_.size() < most_buffers && !oldest_is_copied()) {
    buffers_.push_front(make_buffer());
    return;
  }
  Buffer buffer = buffers_.back();
  check(cudaEventSynchronize(buffer.copied), "copy to device");
  buffer.used = 0;
  buffers_.pop_back();
  buffers_.push_front(buffer);
}

bool UploadRing::oldest_is_copied() const {
  if (buffers_.empty()) return false;
  const cudaError_t status = cudaEventQuery(buffers_.back().copied);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // an answer, which the next launch must not take for an error
    return false;
  }
  check(status, "copy to device");
  return true;
}

UploadRing::Buffer UploadRing::make_buffer() {
  Buffer buffer;
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, buffer_bytes, cudaHostAllocDefault), "pinned host memory");
  buffer.memory = static_cast<std::byte*>(memory);
  check(cudaEventCreateWithFlags(&buffer.copied, cudaEventDisableTiming), "event");
  return buffer;
}

}  // namespace mobius::cuda
