#include "core/cuda/attention/tensor_instances.cuh"

namespace mobius::cuda {

template struct TensorKernels<64, 32>;
template struct TensorKernels<64, 64>;

}  // namespace mobius::cuda
