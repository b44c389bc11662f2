#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gpuless/ptx/device_memory.h"
#include "tests/gpuless/ptx/fault.h"
#include "tests/gpuless/ptx/launch.h"
#include "tests/gpuless/ptx/module.h"

namespace mobius::ptx {

/// Runs the kernels of one PTX file in tests, with arrays on a device of its own.
class KernelRunner {
 public:
  explicit KernelRunner(const std::string& file) : module(text_of(file), memory) {}
  static KernelRunner of_text(const std::string& text) { return KernelRunner(text, 0); }

  template <typename T>
  std::uint64_t upload(const std::vector<T>& values, std::string_view label = "input") {
    const std::uint64_t address = memory.allocate(values.size() * sizeof(T), label);
    memory.copy_from_host(address, values.data(), values.size() * sizeof(T));
    return address;
  }
  template <typename T>
  std::uint64_t allocate(std::size_t count, std::string_view label = "output") {
    return memory.allocate(count * sizeof(T), label);
  }
  template <typename T>
  std::vector<T> download(std::uint64_t address, std::size_t count) {
    std::vector<T> values(count);
    memory.copy_to_host(values.data(), address, count * sizeof(T));
    return values;
  }

  /// Launches with parameters of the kernel's own types.
  template <typename... Parameters>
  LaunchCounters run(std::string_view kernel, Dim3 grid, Dim3 block,
                     const Parameters&... parameters) {
    config.grid = grid;
    config.block = block;
    config.parameters.clear();
    (add(parameters), ...);
    return launch(module.kernel(kernel), memory, config);
  }

  /// The message of the fault that a launch ends with; fails the test if there is none.
  template <typename... Parameters>
  std::string fault_of(std::string_view kernel, Dim3 grid, Dim3 block,
                       const Parameters&... parameters) {
    try {
      run(kernel, grid, block, parameters...);
    } catch (const Fault& fault) {
      return fault.what();
    }
    ADD_FAILURE() << kernel << " ran without a fault";
    return {};
  }

  DeviceMemory memory;
  Module module;
  LaunchConfig config;

 private:
  KernelRunner(const std::string& text, int) : module(text, memory) {}

  static std::string text_of(const std::string& file) {
    std::ifstream stream(file);
    EXPECT_TRUE(stream.good()) << file;
    std::stringstream text;
    text << stream.rdbuf();
    return text.str();
  }
  template <typename T>
  void add(const T& value) {
    auto& bytes = config.parameters;
    const std::size_t offset = (bytes.size() + alignof(T) - 1) / alignof(T) * alignof(T);
    bytes.resize(offset + sizeof(T));
    std::memcpy(bytes.data() + offset, &value, sizeof(T));
  }
};

}  // namespace mobius::ptx
