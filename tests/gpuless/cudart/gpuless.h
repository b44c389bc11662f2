// What the libraries that stand in for CUDA's tell a test in the same process.
//
// The production program is linked with CUDA's own libraries and knows nothing of this. A test
// finds the functions, if it runs on the stand-ins, by name:
//
//   if (auto* counters = gpuless_find<GpulessCounters()>("gpuless_counters")) ...
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

#include "tests/gpuless/ptx/counters.h"

/// Counted since the start, or since gpuless_reset_counters().
struct GpulessCounters {
  std::uint64_t launches;       // of kernels, that ran
  std::uint64_t library_calls;  // matrix products
  std::uint64_t bytes_to_device;
  std::uint64_t bytes_to_host;
  std::uint64_t bytes_on_device;  // copied within or between devices
  std::uint64_t copies;
  std::uint64_t host_waits;  // calls that waited for work that was not done
  std::uint64_t allocations;
  std::uint64_t frees;
  // In the order of the calls: what was freed on a stream is free for the next allocation.
  std::uint64_t bytes_in_use;
  std::uint64_t peak_bytes;  // a reset sets it to bytes_in_use
};

/// The launches of one kernel, summed.
struct GpulessKernel {
  const char* name;  // demangled; valid until the next reset
  std::uint64_t launches;
  mobius::ptx::LaunchCounters counters;
};

extern "C" {
GpulessCounters gpuless_counters();
/// Writes at most `capacity` kernels, in the order of their names, and returns how many there are.
/// Work that is still queued has not been counted.
std::size_t gpuless_kernels(GpulessKernel* kernels, std::size_t capacity);
void gpuless_reset_counters();
/// Of the order in which work of different streams runs from now on.
void gpuless_set_seed(std::uint64_t seed);
}

/// The function of that name, or null if the stand-ins are not in this process.
template <class Function>
Function* gpuless_find(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}
