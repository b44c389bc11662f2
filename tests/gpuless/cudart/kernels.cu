#include <cuda_runtime.h>

#include "tests/gpuless/cudart/kernels.h"

namespace mobius::gpuless_test {
namespace {

constexpr int block = 128;
int blocks(int n) { return (n + block - 1) / block; }

__constant__ float constants[4] = {1, 2, 3, 4};

__global__ void fill_kernel(float* y, int n, float value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = value;
}

__global__ void axpy_kernel(float* y, const float* x, int n, float a) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}

template <class T>
__global__ void copy_kernel(T* y, const T* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}

__global__ void sum_of_block(float* y, const float* x, int n) {
  extern __shared__ float partial[];
  const int i = threadIdx.x;
  partial[i] = x[i];
  __syncthreads();
  if (i > 0) return;
  float total = 0;
  for (int j = 0; j < n; ++j) total += partial[j];
  *y = total;
}

__global__ void look_up_kernel(float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = constants[i % 4];
}

__global__ void __launch_bounds__(64) bounded_kernel() {}

}  // namespace

void fill(float* y, int n, float value, cudaStream_t stream) {
  fill_kernel<<<blocks(n), block, 0, stream>>>(y, n, value);
}

void axpy(float* y, const float* x, int n, float a, cudaStream_t stream) {
  axpy_kernel<<<blocks(n), block, 0, stream>>>(y, x, n, a);
}

void copy_doubles(double* y, const double* x, int n, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks(n);
  config.blockDim = block;
  config.stream = stream;
  cudaLaunchKernelEx(&config, copy_kernel<double>, y, x, n);
}

void sum(float* y, const float* x, int n, std::size_t more_shared_bytes, cudaStream_t stream) {
  sum_of_block<<<1, n, n * sizeof(float) + more_shared_bytes, stream>>>(y, x, n);
}

const void* sum_kernel() { return reinterpret_cast<const void*>(&sum_of_block); }

void look_up(float* y, int n, cudaStream_t stream) {
  look_up_kernel<<<blocks(n), block, 0, stream>>>(y, n);
}

const void* table() { return constants; }

cudaError_t launch_bounded(int threads) {
  bounded_kernel<<<1, threads>>>();
  return cudaGetLastError();
}

}  // namespace mobius::gpuless_test
