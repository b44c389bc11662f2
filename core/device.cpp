#include "core/device.h"

#include <charconv>

#include "core/error.h"

namespace mobius {

std::string to_string(const Device& device) {
  return device.type == DeviceType::cpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

Device device_from_name(const std::string& name) {
  if (name == "cpu") return {};
  if (name == "cuda") return {DeviceType::cuda, 0};
  if (name.starts_with("cuda:")) {
    int index = -1;
    const char* end = name.data() + name.size();
    const auto [stop, failure] = std::from_chars(name.data() + 5, end, index);
    if (failure == std::errc() && stop == end && index >= 0) return {DeviceType::cuda, index};
  }
  throw Error("device: '{}' is not a device (cpu, cuda, cuda:0, cuda:1, ...)", name);
}

}  // namespace mobius
