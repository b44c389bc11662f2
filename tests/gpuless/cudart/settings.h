// What the environment says about the imitated devices. README.md lists the variables.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace mobius::gpuless {

struct Settings {
  int devices = 1;
  /// Unless success, what every call that needs a device returns.
  cudaError_t unavailable = cudaSuccess;
  std::size_t memory_bytes = std::size_t{8} << 30;  // of one device
  int capability = 80;                              // compute capability, times ten
  int multiprocessors = 8;
  std::uint64_t seed = 1;  // of the order of the streams' work
  bool aborts = true;      // after the message about a fault
  /// The device is lost at the launch after this many.
  std::optional<std::uint64_t> lose_after;
  std::string report;  // a file for the counters, written at exit; empty for none
};

/// Read when first asked for. A value that makes no sense ends the process with a message.
const Settings& settings();

}  // namespace mobius::gpuless
