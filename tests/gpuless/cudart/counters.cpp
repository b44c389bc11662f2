#include "tests/gpuless/cudart/counters.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace mobius::gpuless {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const GpulessCounters& counters) {
  return {{"launches", counters.launches},
          {"library_calls", counters.library_calls},
          {"bytes_to_device", counters.bytes_to_device},
          {"bytes_to_host", counters.bytes_to_host},
          {"bytes_on_device", counters.bytes_on_device},
          {"copies", counters.copies},
          {"host_waits", counters.host_waits},
          {"allocations", counters.allocations},
          {"frees", counters.frees},
          {"bytes_in_use", counters.bytes_in_use},
          {"peak_bytes", counters.peak_bytes}};
}

Json to_json(const ptx::LaunchCounters& counters) {
  constexpr const char* classes[ptx::kInstructionClasses] = {
      "fma", "fp64", "tensor", "special", "integer", "conversion", "control", "memory"};
  Json instructions;
  for (std::size_t i = 0; i < ptx::kInstructionClasses; ++i)
    instructions[classes[i]] = {{"warps", counters.instructions[i].warps},
                                {"lanes", counters.instructions[i].lanes}};
  const auto global = [](const ptx::GlobalTraffic& traffic) -> Json {
    return {{"requests", traffic.requests}, {"sectors", traffic.sectors}, {"bytes", traffic.bytes}};
  };
  const auto shared = [](const ptx::SharedTraffic& traffic) -> Json {
    return {{"requests", traffic.requests},
            {"wavefronts", traffic.wavefronts},
            {"ideal_wavefronts", traffic.ideal_wavefronts}};
  };
  return {{"blocks", counters.blocks},
          {"instructions", instructions},
          {"global_reads", global(counters.global_reads)},
          {"global_writes", global(counters.global_writes)},
          {"shared_reads", shared(counters.shared_reads)},
          {"shared_writes", shared(counters.shared_writes)},
          {"atomics", counters.atomics},
          {"matrix_loads", counters.matrix_loads},
          {"asynchronous_copies", counters.asynchronous_copies},
          {"block_barriers", counters.block_barriers}};
}

}  // namespace

void Counters::add_launch(const std::string& name, const ptx::LaunchCounters& counters) {
  ++totals.launches;
  Launches& kernel = kernels_[name];
  ++kernel.launches;
  kernel.counters += counters;
}

void Counters::allocated(std::size_t bytes) {
  ++totals.allocations;
  totals.bytes_in_use += bytes;
  totals.peak_bytes = std::max(totals.peak_bytes, totals.bytes_in_use);
}

void Counters::freed(std::size_t bytes) {
  ++totals.frees;
  totals.bytes_in_use -= bytes;
}

void Counters::reset() {
  const auto bytes = totals.bytes_in_use;
  totals = {};
  totals.bytes_in_use = totals.peak_bytes = bytes;
  kernels_.clear();
}

std::size_t Counters::kernels(GpulessKernel* result, std::size_t capacity) const {
  std::size_t i = 0;
  for (const auto& [name, kernel] : kernels_) {
    if (i == capacity) break;
    result[i++] = {name.c_str(), kernel.launches, kernel.counters};
  }
  return kernels_.size();
}

void Counters::write(const std::string& file) const {
  Json json = to_json(totals);
  Json& kernels = json["kernels"] = Json::object();
  for (const auto& [name, kernel] : kernels_) {
    kernels[name] = to_json(kernel.counters);
    kernels[name]["launches"] = kernel.launches;
  }
  std::ofstream out(file);
  out << json.dump(2) << '\n';
  if (!out) std::fprintf(stderr, "gpuless: cannot write the report to '%s'\n", file.c_str());
}

}  // namespace mobius::gpuless
