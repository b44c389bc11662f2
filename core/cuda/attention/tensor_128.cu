#include "core/cuda/attention/tensor_instances.cuh"

namespace mobius::cuda {

template struct TensorKernels<128, 64>;
template struct TensorKernels<128, 128>;

}  // namespace mobius::cuda
