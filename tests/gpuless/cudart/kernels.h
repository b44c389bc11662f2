// Kernels for the tests of the stand-ins, behind functions that launch them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace mobius::gpuless_test {

/// y[i] = value for i < n.
void fill(float* y, int n, float value, cudaStream_t stream);
/// y[i] = a * x[i] + y[i] for i < n.
void axpy(float* y, const float* x, int n, float a, cudaStream_t stream);
/// y[i] = x[i] for i < n, launched with cudaLaunchKernelEx and double precision.
void copy_doubles(double* y, const double* x, int n, cudaStream_t stream);
/// y[0] = the sum of x[i], i < n <= 1024, by one block of n threads that take n floats of dynamic
/// shared memory, besides `more_shared_bytes` that they do not use.
void sum(float* y, const float* x, int n, std::size_t more_shared_bytes, cudaStream_t stream);
/// The handle of the kernel behind sum(), for the functions that ask about kernels.
const void* sum_kernel();
/// y[i] = table[i % 4], where `table` is the variable in constant memory below.
void look_up(float* y, int n, cudaStream_t stream);
/// The constant memory, 4 floats that begin as 1, 2, 3 and 4.
const void* table();
/// A kernel with a launch bound of 64 threads, launched with `threads`.
cudaError_t launch_bounded(int threads);

}  // namespace mobius::gpuless_test
