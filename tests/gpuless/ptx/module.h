#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gpuless/ptx/device_memory.h"

namespace mobius::ptx {

struct Program;  // decoded instructions

/// One parameter of a kernel, at its place in the packed parameters of a launch.
struct Parameter {
  std::uint32_t offset;
  std::uint32_t bytes;
};

/// A kernel, decoded.
struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  std::uint32_t parameter_bytes = 0;
  std::uint32_t static_shared_bytes = 0;
  bool uses_dynamic_shared = false;
  std::uint32_t max_threads = 1024;  // of .maxntid or .reqntid
  std::uint32_t registers = 0;       // declared in the PTX; ptxas decides what is used
  std::shared_ptr<const Program> program;
};

/// The PTX text of one translation unit. Construction only looks for entries; a kernel is decoded
/// when it is first asked for. Variables of the module are placed into the memory, with their
/// initial values, when a kernel or symbol() first needs them. Safe to use from several threads.
class Module {
 public:
  struct State;

  Module(std::string text, DeviceMemory& memory);
  ~Module();
  Module(Module&&) noexcept;

  /// Throws a Fault for an unknown name and for text that cannot be decoded.
  const Kernel& kernel(std::string_view name);
  bool has_kernel(std::string_view name) const;
  std::vector<std::string> kernel_names() const;

  /// The address of a .global or .const variable of the module, and its size. Throws a Fault for an
  /// unknown name.
  DeviceMemory::Range symbol(std::string_view name);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace mobius::ptx
