#include "core/cuda/attention/tensor_instances.cuh"

namespace mobius::cuda {

template struct TensorKernels<256, 256>;

}  // namespace mobius::cuda
