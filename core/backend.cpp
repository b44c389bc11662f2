#include "core/backend.h"

#include "core/error.h"

namespace mobius {
namespace {

Backend* find_backend(Device device) {
  switch (device.type) {
    case DeviceType::cpu:
      return cpu_backend(device.index);
    case DeviceType::cuda:
      return cuda_backend(device.index);
    case DeviceType::test:
      return test_backend(device.index);
  }
  return nullptr;
}

}  // namespace

Backend& backend_for(Device device) {
  if (Backend* const backend = find_backend(device)) return *backend;
  throw Error("device {}: there is no such device", to_string(device));
}

void throw_family_lacking(Device device, std::string_view family) {
  throw Error("device {}: it has no kernels of the family '{}'", to_string(device), family);
}

}  // namespace mobius
