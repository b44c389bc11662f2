#include "core/backend.h"

#include "core/cpu/cpu_backend.h"
#include "core/error.h"

namespace mobius {
namespace {

// Never destroyed: a tensor of static lifetime may outlive everything that could own a backend.
Backend& cpu_backend() {
  static Backend& backend = *new CpuBackend;
  return backend;
}

}  // namespace

Backend& backend_for(Device device) {
  switch (device.type) {
    case DeviceType::cpu:
      if (device.index != 0) break;
      return cpu_backend();
    case DeviceType::cuda:
      throw Error("device {}: this build has no CUDA backend", to_string(device));
  }
  throw Error("device {}: there is no such device", to_string(device));
}

}  // namespace mobius
