#include "tests/gpuless/cudart/registry.h"

#include <cxxabi.h>

#include <cstdlib>

#include "tests/gpuless/cudart/fatbinary.h"
#include "tests/gpuless/cudart/settings.h"

namespace mobius::gpuless {
namespace {

constexpr std::size_t shared_without_leave = 48 << 10;

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return readable ? readable.get() : name;
}

}  // namespace

FatBinary* Registry::add_binary(const void* wrapper) {
  binaries_.push_back(std::make_unique<FatBinary>());
  binaries_.back()->wrapper = wrapper;
  return binaries_.back().get();
}

void Registry::remove_binary(FatBinary* binary) {
  const auto is_of_binary = [&](const auto& entry) { return entry.second.binary == binary; };
  std::erase_if(kernels_, is_of_binary);
  std::erase_if(variables_, is_of_binary);
  std::erase_if(binaries_, [&](const auto& other) { return other.get() == binary; });
}

void Registry::add_kernel(FatBinary* binary, const void* host_function, const char* name) {
  kernels_[host_function] = {binary, name, {}};
}

void Registry::add_variable(FatBinary* binary, const void* host_variable, const char* name) {
  variables_[host_variable] = {binary, name, {}};
}

ptx::Module& Registry::module(FatBinary& binary, int device) {
  std::unique_ptr<ptx::Module>& result = binary.modules[device];
  if (!result)
    result = std::make_unique<ptx::Module>(ptx_of_fat_binary(binary.wrapper, settings().capability),
                                           memory_);
  return *result;
}

LoadedKernel* Registry::kernel(const void* host_function, int device) {
  const auto entry = kernels_.find(host_function);
  if (entry == kernels_.end()) return nullptr;
  LoadedKernel& result = entry->second.loaded[device];
  if (!result.code) {
    result.code = &module(*entry->second.binary, device).kernel(entry->second.name);
    result.name = demangled(entry->second.name);
    result.shared_limit = shared_without_leave - result.code->static_shared_bytes;
  }
  return &result;
}

ptx::DeviceMemory::Range Registry::variable(const void* host_variable, int device) {
  const Entry& entry = variables_.at(host_variable);
  return module(*entry.binary, device).symbol(entry.name);
}

}  // namespace mobius::gpuless
