// Copies and fills, in stream order.
//
// Pageable memory of the host is read when the call is made, and written before it returns, as the
// real runtime does it through buffers of its own. Page-locked memory is read and written when the
// stream gets there, so that a buffer that is reused too early shows as wrong data.
#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/gpuless/cudart/machine.h"

namespace mobius::gpuless {
namespace {

using Lock = Scheduler::Lock;

/// Rows of a copy; a plain copy has one.
struct Rows {
  std::size_t bytes;  // of a row
  std::size_t count = 1;
  std::size_t to_pitch = 0;  // bytes from one row to the next
  std::size_t from_pitch = 0;

  std::size_t total() const { return bytes * count; }
};

bool is_device(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer) & ptx::DeviceMemory::kDeviceBit;
}

std::uint64_t address(const void* pointer, std::size_t offset) {
  return reinterpret_cast<std::uint64_t>(pointer) + offset;
}

cudaMemcpyKind kind_of(const void* to, const void* from) {
  if (is_device(to)) return is_device(from) ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
  return is_device(from) ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

const char* name_of(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return "to the device";
    case cudaMemcpyDeviceToHost:
      return "to the host";
    case cudaMemcpyDeviceToDevice:
      return "on the device";
    default:
      return "on the host";
  }
}

void require_live(const std::shared_ptr<PinnedMemory>& memory) {
  if (memory && memory->freed)
    throw Misuse(cudaErrorInvalidValue,
                 "page-locked memory of the host was freed before the copy was done");
}

/// The rows of pageable memory, one after the other.
std::vector<char> snapshot(const void* from, const Rows& rows) {
  std::vector<char> result(rows.total());
  for (std::size_t row = 0; row < rows.count; ++row)
    std::memcpy(result.data() + row * rows.bytes,
                static_cast<const char*>(from) + row * rows.from_pitch, rows.bytes);
  return result;
}

std::function<void()> copy_to_device(Machine& machine, void* to, const void* from, Rows rows) {
  auto pinned = machine.allocations.pinned(from);
  std::vector<char> staged;
  if (!pinned) {
    staged = snapshot(from, rows);
    rows.from_pitch = rows.bytes;
  }
  return [&machine, to, from, rows, pinned = std::move(pinned), staged = std::move(staged)] {
    require_live(pinned);
    const char* source = pinned ? static_cast<const char*>(from) : staged.data();
    for (std::size_t row = 0; row < rows.count; ++row)
      machine.memory.copy_from_host(address(to, row * rows.to_pitch),
                                    source + row * rows.from_pitch, rows.bytes);
    machine.counters.totals.bytes_to_device += rows.total();
  };
}

std::function<void()> copy_to_host(Machine& machine, void* to, const void* from, Rows rows) {
  auto pinned = machine.allocations.pinned(to);
  return [&machine, to, from, rows, pinned = std::move(pinned)] {
    require_live(pinned);
    for (std::size_t row = 0; row < rows.count; ++row)
      machine.memory.copy_to_host(static_cast<char*>(to) + row * rows.to_pitch,
                                  address(from, row * rows.from_pitch), rows.bytes);
    machine.counters.totals.bytes_to_host += rows.total();
  };
}

std::function<void()> copy_on_device(Machine& machine, void* to, const void* from, Rows rows) {
  return [&machine, to, from, rows] {
    for (std::size_t row = 0; row < rows.count; ++row)
      machine.memory.copy(address(to, row * rows.to_pitch), address(from, row * rows.from_pitch),
                          rows.bytes);
    machine.counters.totals.bytes_on_device += rows.total();
  };
}

std::function<void()> copy_on_host(void* to, const void* from, Rows rows) {
  return [=] {
    for (std::size_t row = 0; row < rows.count; ++row)
      std::memmove(static_cast<char*>(to) + row * rows.to_pitch,
                   static_cast<const char*>(from) + row * rows.from_pitch, rows.bytes);
  };
}

std::function<void()> copy_work(Machine& machine, void* to, const void* from, const Rows& rows,
                                cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return copy_to_device(machine, to, from, rows);
    case cudaMemcpyDeviceToHost:
      return copy_to_host(machine, to, from, rows);
    case cudaMemcpyDeviceToDevice:
      return copy_on_device(machine, to, from, rows);
    default:
      return copy_on_host(to, from, rows);
  }
}

cudaError_t copy(Machine& machine, Lock& lock, void* to, const void* from, const Rows& rows,
                 cudaMemcpyKind kind, cudaStream_t stream, bool host_waits) {
  const auto queue = machine.stream(stream);
  if (rows.total() == 0) return cudaSuccess;
  if (!to || !from) throw Misuse(cudaErrorInvalidValue, "a null pointer");
  const auto actual = kind_of(to, from);
  if (kind != cudaMemcpyDefault && kind != actual)
    throw Misuse(cudaErrorInvalidMemcpyDirection, std::string("the pointers are those of a copy ") +
                                                      name_of(actual) + ", not of one " +
                                                      name_of(kind));
  if (rows.count > 1 && (rows.to_pitch < rows.bytes || rows.from_pitch < rows.bytes))
    return cudaErrorInvalidValue;
  const bool to_pageable = !is_device(to) && !machine.allocations.pinned(to);
  const auto what =
      "copy of " + std::to_string(rows.total()) + " bytes " + std::string(name_of(actual));
  machine.enqueue(
      queue, {.what = what, .after = {}, .run = copy_work(machine, to, from, rows, actual)}, lock);
  ++machine.counters.totals.copies;
  // Copies on the device alone do not stop the host even if they are not asynchronous.
  if (to_pageable || (host_waits && actual != cudaMemcpyDeviceToDevice))
    machine.wait(Scheduler::now(queue), lock);
  return cudaSuccess;
}

cudaError_t fill(Machine& machine, Lock& lock, void* to, int value, const Rows& rows,
                 cudaStream_t stream) {
  const auto queue = machine.stream(stream);
  if (rows.total() == 0) return cudaSuccess;
  const auto work = [&machine, to, value, rows] {
    for (std::size_t row = 0; row < rows.count; ++row)
      machine.memory.fill(address(to, row * rows.to_pitch), static_cast<unsigned char>(value),
                          rows.bytes);
  };
  const auto what = "fill of " + std::to_string(rows.total()) + " bytes";
  machine.enqueue(queue, {.what = what, .after = {}, .run = work}, lock);
  return cudaSuccess;
}

/// The address of byte `offset` of a device variable.
void* symbol_address(Machine& machine, const void* symbol, std::size_t offset) {
  const auto range = machine.registry.variable(symbol, current_device());
  return reinterpret_cast<void*>(range.address + offset);
}

}  // namespace
}  // namespace mobius::gpuless

using mobius::gpuless::call;
using mobius::gpuless::current_device;
using mobius::gpuless::Machine;
using mobius::gpuless::symbol_address;
using Lock = mobius::gpuless::Scheduler::Lock;

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    return mobius::gpuless::copy(machine, lock, to, from, {bytes}, kind, nullptr, true);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    return mobius::gpuless::copy(machine, lock, to, from, {bytes}, kind, stream, false);
  });
}

cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    return mobius::gpuless::copy(machine, lock, to, from, {width, height, to_pitch, from_pitch},
                                 kind, nullptr, true);
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    return mobius::gpuless::copy(machine, lock, to, from, {width, height, to_pitch, from_pitch},
                                 kind, stream, false);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                                cudaStream_t stream) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    return mobius::gpuless::copy(machine, lock, to, from, {bytes}, cudaMemcpyDeviceToDevice, stream,
                                 false);
  });
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                           std::size_t bytes) {
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, nullptr);
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    return mobius::gpuless::fill(machine, lock, to, value, {bytes}, nullptr);
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    return mobius::gpuless::fill(machine, lock, to, value, {bytes}, stream);
  });
}

cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width,
                              std::size_t height, cudaStream_t stream) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    return mobius::gpuless::fill(machine, lock, to, value, {width, height, pitch}, stream);
  });
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return call(__func__, [&](Machine& machine, Lock&) {
    *address = symbol_address(machine, symbol, 0);
    return cudaSuccess;
  });
}

cudaError_t cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  return call(__func__, [&](Machine& machine, Lock&) {
    *bytes = machine.registry.variable(symbol, current_device()).bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes,
                                    std::size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    return mobius::gpuless::copy(machine, lock, symbol_address(machine, symbol, offset), from,
                                 {bytes}, kind, stream, false);
  });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes,
                               std::size_t offset, cudaMemcpyKind kind) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    return mobius::gpuless::copy(machine, lock, symbol_address(machine, symbol, offset), from,
                                 {bytes}, kind, nullptr, true);
  });
}

cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t bytes,
                                      std::size_t offset, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    return mobius::gpuless::copy(machine, lock, to, symbol_address(machine, symbol, offset),
                                 {bytes}, kind, stream, false);
  });
}

cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes,
                                 std::size_t offset, cudaMemcpyKind kind) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    return mobius::gpuless::copy(machine, lock, to, symbol_address(machine, symbol, offset),
                                 {bytes}, kind, nullptr, true);
  });
}

}  // extern "C"
