// The kernels and device variables of the program, as nvcc's start-up code registers them.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/gpuless/ptx/module.h"

namespace mobius::gpuless {

/// A kernel on one device.
struct LoadedKernel {
  const ptx::Kernel* code = nullptr;
  std::string name;              // demangled
  std::size_t shared_limit = 0;  // dynamic shared memory that a block may have, in bytes
};

/// The code of one source file.
struct FatBinary {
  const void* wrapper = nullptr;
  std::map<int, std::unique_ptr<ptx::Module>> modules;  // by device; made when first needed
};

class Registry {
 public:
  explicit Registry(ptx::DeviceMemory& memory) : memory_(memory) {}

  FatBinary* add_binary(const void* wrapper);
  void remove_binary(FatBinary* binary);
  void add_kernel(FatBinary* binary, const void* host_function, const char* name);
  void add_variable(FatBinary* binary, const void* host_variable, const char* name);

  /// Null for what was never registered. Throws std::runtime_error for code that cannot be run.
  LoadedKernel* kernel(const void* host_function, int device);
  /// Throws std::out_of_range for what was never registered.
  ptx::DeviceMemory::Range variable(const void* host_variable, int device);

 private:
  struct Entry {
    FatBinary* binary;
    std::string name;
    std::map<int, LoadedKernel> loaded;  // by device
  };

  ptx::Module& module(FatBinary& binary, int device);

  ptx::DeviceMemory& memory_;
  std::vector<std::unique_ptr<FatBinary>> binaries_;
  std::map<const void*, Entry> kernels_;
  std::map<const void*, Entry> variables_;
};

}  // namespace mobius::gpuless
