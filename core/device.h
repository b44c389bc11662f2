// The devices that hold tensors.
#pragma once

#include <string>

namespace mobius {

enum class DeviceType {
  cpu,
  cuda,
  test  // exists only in test programs, which supply its backend (core/backend.h)
};

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;  // ordinal among devices of this type

  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:1", "test".
std::string to_string(const Device& device);
/// Inverse of to_string(); "cuda" means "cuda:0". Throws Error on any other name, and on "test" if
/// the program does not have this device.
Device device_from_name(const std::string& name);

}  // namespace mobius
