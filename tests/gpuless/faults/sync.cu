// Kernels with one fault each in how threads meet, and in copies that run beside them.

#include <cuda_pipeline_primitives.h>

extern "C" {

__global__ void barrier_in_branch(float* out, int n) {
  if (threadIdx.x < n) __syncthreads();
  out[threadIdx.x] = 1;
  __syncthreads();
}

// Within one warp the two barriers are different ones.
__global__ void barrier_in_both_branches(float* out) {
  if (threadIdx.x < 16) {
    out[threadIdx.x] = 1;
    __syncthreads();
  } else {
    out[threadIdx.x] = 2;
    __syncthreads();
    out[threadIdx.x] = 3;
  }
}

__global__ void shuffle_after_exit(float* out) {
  if (threadIdx.x >= 16) return;
  float x = threadIdx.x;
  x += __shfl_xor_sync(~0u, x, 8);
  out[threadIdx.x] = x;
}

__global__ void shuffle_in_branch(float* out) {
  float x = threadIdx.x;
  if (threadIdx.x < 16) {
    x += __shfl_xor_sync(~0u, x, 8);
  } else {
    x *= out[threadIdx.x];
    __syncthreads();
  }
  out[threadIdx.x] = x;
}

__global__ void mask_without_self(float* out) {
  float x = threadIdx.x;
  x += __shfl_sync(0xFFFFu, x, 0);
  out[threadIdx.x] = x;
}

__global__ void shuffle_beyond_block(float* out) {
  float x = threadIdx.x;
  x += __shfl_down_sync(~0u, x, 16);
  out[threadIdx.x] = x;
}

__global__ void copy_not_waited_for(const float4* in, float4* out) {
  __shared__ float4 tile[32];
  __pipeline_memcpy_async(tile + threadIdx.x, in + threadIdx.x, 16);
  __pipeline_commit();
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
  __pipeline_wait_prior(0);
}

__global__ void copy_overwritten(const float4* in, float4* out) {
  __shared__ float4 tile[32];
  __pipeline_memcpy_async(tile + threadIdx.x, in + threadIdx.x, 16);
  __pipeline_commit();
  tile[threadIdx.x].y = 1;
  __pipeline_wait_prior(0);
  out[threadIdx.x] = tile[threadIdx.x];
}

__global__ void copy_at_end(const float4* in) {
  __shared__ float4 tile[32];
  __pipeline_memcpy_async(tile + threadIdx.x, in + threadIdx.x, 16);
  __pipeline_commit();
}

__global__ void copy_not_committed(const float4* in, float4* out) {
  __shared__ float4 tile[32];
  __pipeline_memcpy_async(tile + threadIdx.x, in + threadIdx.x, 16);
  asm volatile("cp.async.wait_group 0;");
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}

__global__ void copy_never_committed(const float4* in) {
  __shared__ float4 tile[32];
  __pipeline_memcpy_async(tile + threadIdx.x, in + threadIdx.x, 16);
}

// One wait too weak: the group of this round is still in flight.
__global__ void wait_for_older_group(const float4* in, float4* out) {
  __shared__ float4 tile[2][32];
  for (int i = 0; i < 2; ++i) {
    __pipeline_memcpy_async(&tile[i][threadIdx.x], in + threadIdx.x, 16);
    __pipeline_commit();
  }
  __pipeline_wait_prior(1);
  __syncthreads();
  out[threadIdx.x] = tile[1][threadIdx.x];
  __pipeline_wait_prior(0);
}

// A wait of each thread is no barrier: other threads' copies may be missing.
__global__ void wait_without_barrier(const float4* in, float4* out) {
  __shared__ float4 tile[64];
  __pipeline_memcpy_async(tile + threadIdx.x, in + threadIdx.x, 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

// Filled again while other warps may still read.
__global__ void copy_into_read_buffer(const float4* in, float4* out) {
  __shared__ float4 tile[64];
  for (int i = 0; i < 2; ++i) {
    __pipeline_memcpy_async(tile + threadIdx.x, in + threadIdx.x, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
  }
}

__global__ void matrix_misaligned(unsigned* out, int offset) {
  __shared__ __align__(16) unsigned short tile[128];
  for (int i = threadIdx.x; i < 128; i += 32) tile[i] = i;
  __syncthreads();
  unsigned a;
  const auto row =
      static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x % 8 * 8 + offset));
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(row));
  out[threadIdx.x] = a;
}
}
