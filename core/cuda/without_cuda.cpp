// What a build without CUDA is linked with.
#include "core/backend.h"
#include "core/error.h"

namespace mobius {

Backend* cuda_backend(int index) {
  throw Error("device {}: this build has no CUDA backend", to_string({DeviceType::cuda, index}));
}

}  // namespace mobius
