// Counts of what was done, for tests and for a file at exit.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "tests/gpuless/cudart/gpuless.h"

namespace mobius::gpuless {

/// Callers hold the machine's lock.
class Counters {
 public:
  GpulessCounters totals{};

  void add_launch(const std::string& name, const ptx::LaunchCounters& counters);
  void allocated(std::size_t bytes);
  void freed(std::size_t bytes);
  void reset();
  std::size_t kernels(GpulessKernel* result, std::size_t capacity) const;
  /// Writes everything as JSON.
  void write(const std::string& file) const;

 private:
  struct Launches {
    std::uint64_t launches = 0;
    ptx::LaunchCounters counters;
  };
  std::map<std::string, Launches> kernels_;
};

}  // namespace mobius::gpuless
