#include "core/device.h"

#include <charconv>

#include "core/backend.h"
#include "core/error.h"

namespace mobius {

std::string to_string(const Device& device) {
  switch (device.type) {
    case DeviceType::cpu:
      return "cpu";
    case DeviceType::cuda:
      return fmt::format("cuda:{}", device.index);
    case DeviceType::test:
      break;
  }
  return device.index == 0 ? "test" : fmt::format("test:{}", device.index);
}

Device device_from_name(const std::string& name) {
  if (name == "cpu") return {};
  if (name == "test" && test_backend(0)) return {DeviceType::test, 0};
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
