#include "core/cuda/attention/tensor_instances.cuh"

namespace mobius::cuda {

template struct TensorKernels<32, 32>;

}  // namespace mobius::cuda
