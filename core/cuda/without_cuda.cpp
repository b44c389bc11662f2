// What a build without CUDA is linked with.
#include "core/backend.h"
#include "core/error.h"
#include "core/gpus.h"

namespace mobius {

Backend* cuda_backend(int index) {
  throw Error("device {}: {}", to_string({DeviceType::cuda, index}), find_gpus().problem);
}

GpuReport find_gpus() {
  GpuReport report;
  report.problem = "this build has no CUDA backend";
  return report;
}

}  // namespace mobius
