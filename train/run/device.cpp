#include "train/run/device.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/comm/launch.h"
#include "core/cpu/simd/isa.h"

namespace mobius {

namespace {

Device gpu_for(int local_rank, const GpuReport& report) {
  if (!report.problem.empty()) throw ConfigError("train.device: cuda: {}", report.problem);
  const std::vector<Gpu> usable = report.usable();
  const auto place = static_cast<std::size_t>(local_rank);
  if (place < usable.size()) return {DeviceType::cuda, usable[place].index};
  throw ConfigError(
      "train.device: local rank {} needs a GPU of its own, but {} can be used on this machine; "
      "start at most {} rank{} there, or compute with train.device=cpu",
      local_rank, usable.size(), usable.size(), usable.size() == 1 ? "" : "s");
}

Gpu gpu_at(int index) {
  for (const Gpu& gpu : find_gpus().gpus) {
    if (gpu.index == index) return gpu;
  }
  throw Error("device {}: it is gone", to_string({DeviceType::cuda, index}));
}

}  // namespace

Device device_for(const std::string& option, int local_rank, const GpuReport& gpus) {
  if (option == "cuda" || (option == "auto" && gpus.problem.empty()))
    return gpu_for(local_rank, gpus);
  Device device = option == "auto" ? Device{} : device_from_name(option);
  if (device.type != DeviceType::cpu) device.index = local_rank;
  return device;
}

Device device_of(const Config& config) {
  const Launch launch = launch_of(process_environment());
  return device_for(config.train.device, launch.local_rank.value_or(0));
}

void allow_any_device(Config& config, const std::vector<std::string>& overrides) {
  const bool is_chosen = std::any_of(
      overrides.begin(), overrides.end(),
      [](const std::string& assignment) { return assignment.starts_with("train.device="); });
  if (!is_chosen && config.train.device == "cuda") config.train.device = "auto";
}

std::string name_of_device(const Device& device) {
  if (device.type != DeviceType::cuda) return "";
  return fmt::format("{} ({})", gpu_at(device.index).name, to_string(device));
}

std::string computed_by(const Device& device) {
  if (device.type != DeviceType::cuda) return instruction_set();
  const Gpu gpu = gpu_at(device.index);
  return fmt::format("{} (sm_{}{})", gpu.name, gpu.major, gpu.minor);
}

std::string unused_gpu(const Config& config) {
  if (config.train.device != "auto") return "";
  const GpuReport report = find_gpus();
  const bool is_there = !report.gpus.empty() || !report.driver.empty();
  return is_there ? report.problem : "";
}

}  // namespace mobius
