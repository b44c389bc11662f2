// The guarded device: a device with a memory of its own, for tests on a machine without one.
//
// Its kernels are the CPU's. Its memory is an arena that is closed to every access, and opened only
// between the begin and the end of a call of its kernels, so that a host which dereferences device
// memory crashes, and standard error says what it read:
//
//   host dereferenced device memory at 0x7f..., in a block of 128 bytes on test; last kernel: norm
//
// A program that links tests/guarded/guarded_device.cpp has two such devices, `test` and `test:1`,
// whose memories are apart. Neither reads the memory of the other, nor do host pointers given to
// their copies point into it. While a kernel runs on one thread, the memory is open to the others
// as well: what they do then goes unnoticed.
#pragma once

#include <cstdint>

#include "core/device.h"

namespace mobius::testing {

inline constexpr Device guarded_device{DeviceType::test, 0};
inline constexpr Device other_guarded_device{DeviceType::test, 1};

/// What a guarded device did since the start of the program, or since the last reset.
struct GuardedCounts {
  /// Calls of kernels, those inside other kernels included.
  std::int64_t kernels = 0;
  /// Copies to the host: item(), to_vector(), to(Device{}). The host waits at each of them.
  std::int64_t copies_to_host = 0;
  std::int64_t copies_from_host = 0;
};

GuardedCounts guarded_counts(Device device = guarded_device);
void reset_guarded_counts(Device device = guarded_device);

}  // namespace mobius::testing
