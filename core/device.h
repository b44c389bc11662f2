// Where a tensor lives.
#pragma once

#include <string>

namespace mobius {

enum class DeviceType {
  cpu,
  cuda,
  test  // of a test program alone, which brings its backend (core/backend.h)
};

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;  // ordinal among devices of this type

  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:1", "test".
std::string to_string(const Device& device);
/// Inverse of to_string ("cuda" means "cuda:0"); throws Error on anything else. "test" is a name
/// only in a program that has this device.
Device device_from_name(const std::string& name);

}  // namespace mobius
