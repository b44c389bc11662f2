// Kernels without a fault that a careless check would accuse.

#include <cuda_pipeline_primitives.h>

extern "C" {

// Threads that have exited count as arrived.
__global__ void exited_at_barrier(const float* in, float* out, int n) {
  __shared__ float tile[128];
  if (threadIdx.x >= n) return;
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[n - 1 - threadIdx.x];
}

__global__ void warp_exchange(const float* in, float* out) {
  __shared__ float tile[64];
  float* const own = tile + threadIdx.x / 32 * 32;
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < 100; ++i) {
    own[lane] = in[threadIdx.x] + i;
    __syncwarp();
    out[threadIdx.x] = own[31 - lane];
    __syncwarp();
  }
}

__global__ void double_buffer(const float4* in, float4* out, int rounds) {
  __shared__ float4 tile[2][64];
  __pipeline_memcpy_async(&tile[0][threadIdx.x], in + threadIdx.x, 16);
  __pipeline_commit();
  float4 sum = {0, 0, 0, 0};
  for (int i = 0; i < rounds; ++i) {
    if (i + 1 < rounds)
      __pipeline_memcpy_async(&tile[(i + 1) % 2][threadIdx.x], in + (i + 1) * 64 + threadIdx.x, 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    const float4 x = tile[i % 2][63 - threadIdx.x];
    sum.x += x.x;
    sum.y += x.y;
    sum.z += x.z;
    sum.w += x.w;
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}

// Zeros stand for what lies beyond the source.
__global__ void zero_fill(const float* in, float* out, int n) {
  __shared__ float4 tile[32];
  const int first = 4 * threadIdx.x;
  const int rest = max(0, min(4, n - first));
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(in + first),
               "r"(4 * rest)
               : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  const float4 x = tile[threadIdx.x];
  out[threadIdx.x] = x.x + x.y + x.z + x.w;
}

__global__ void histogram(const int* in, int* out, int n) {
  __shared__ int counts[16];
  if (threadIdx.x < 16) counts[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(counts + in[i] % 16, 1);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(out + threadIdx.x, counts[threadIdx.x]);
}

__global__ void last_block_sums(const float* in, float* partial, unsigned* count, float* out) {
  __shared__ bool is_last;
  partial[blockIdx.x * 32 + threadIdx.x] = in[blockIdx.x * 32 + threadIdx.x];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(count, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!is_last) return;
  float sum = 0;
  for (int i = 0; i < gridDim.x; ++i) sum += partial[i * 32 + threadIdx.x];
  out[threadIdx.x] = sum;
  if (threadIdx.x == 0) *count = 0;
}

// Shared memory serves as numbers first, as bytes after a barrier.
__global__ void reinterpreted(const float* in, int* out) {
  extern __shared__ float numbers[];
  numbers[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  const float x = numbers[31 - threadIdx.x];
  __syncthreads();
  auto* const bytes = reinterpret_cast<unsigned char*>(numbers);
  bytes[threadIdx.x] = static_cast<unsigned char>(x);
  __syncthreads();
  out[threadIdx.x] = bytes[31 - threadIdx.x];
}

// Neighbouring threads write, read and change neighbouring bytes.
__global__ void byte_wide(const unsigned char* in, unsigned char* out) {
  __shared__ unsigned char bytes[96];
  bytes[threadIdx.x] = in[threadIdx.x];
  bytes[threadIdx.x] += 1;
  __syncthreads();
  out[threadIdx.x] = bytes[95 - threadIdx.x];
}

// Blocks share a word of global memory, each with its own bytes.
__global__ void neighbouring_halves(unsigned short* data, int n) {
  const int i = blockIdx.x * 33 + threadIdx.x;
  if (threadIdx.x < 33 && i < n) data[i] += 1;
}

__global__ void same_value(int* out, const int* in) {
  __shared__ int is_any;
  if (threadIdx.x == 0) is_any = 0;
  __syncthreads();
  if (in[threadIdx.x] > 3) is_any = 1;
  __syncthreads();
  out[threadIdx.x] = is_any;
}

// Producer and consumer warps meet at named barriers of 64 threads.
__global__ void named_barriers(const float* in, float* out) {
  __shared__ float tile[32];
  if (threadIdx.x < 32) {
    tile[threadIdx.x] = in[threadIdx.x];
    asm volatile("bar.arrive 1, 64;" ::: "memory");
  } else if (threadIdx.x < 64) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[threadIdx.x - 32] = tile[63 - threadIdx.x];
  }
}

// Lanes of one warp sync from different places.
__global__ void syncwarp_in_branches(int* out) {
  __shared__ int tile[32];
  tile[threadIdx.x] = threadIdx.x;
  if (threadIdx.x < 16) {
    __syncwarp();
    out[threadIdx.x] = tile[31 - threadIdx.x] + 100;
  } else {
    __syncwarp();
    out[threadIdx.x] = tile[31 - threadIdx.x] * 2;
  }
}

// Groups of lanes name only themselves, after a branch.
__global__ void shuffle_in_halves(int* out) {
  int x = threadIdx.x;
  if (threadIdx.x < 16) {
    x = __shfl_xor_sync(0xFFFFu, x, 1);
  } else {
    x = __shfl_xor_sync(0xFFFF0000u, x, 2);
  }
  out[threadIdx.x] = x;
}

// Every lane leaves the loop at another round, and all meet behind it.
__global__ void ragged_loop(int* out) {
  int sum = 0;
  for (int i = 0;; ++i) {
    sum += i;
    if (i >= static_cast<int>(threadIdx.x)) break;
    if (i % 3 == 2) continue;
    sum += 1;
  }
  out[threadIdx.x] = sum + __popc(__ballot_sync(~0u, 1));
}
}
