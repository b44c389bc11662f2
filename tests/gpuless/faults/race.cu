// Kernels with one race each.

extern "C" {

// --- In shared memory.

__global__ void missing_barrier(const float* in, float* out) {
  __shared__ float tile[128];
  tile[threadIdx.x] = 0;
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = tile[127 - threadIdx.x];
}

// The next round overwrites what other warps may still read.
__global__ void missing_second_barrier(const float* in, float* out) {
  __shared__ float tile[128];
  for (int round = 0; round < 2; ++round) {
    tile[threadIdx.x] = in[threadIdx.x] + round;
    __syncthreads();
    out[threadIdx.x] = tile[(threadIdx.x + 64) % 128];
  }
}

__global__ void two_writers(float* out) {
  __shared__ float value;
  if (threadIdx.x % 32 == 0) value = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = value;
}

// Lanes of one warp exchange without __syncwarp.
__global__ void missing_syncwarp(const float* in, float* out) {
  __shared__ float tile[32];
  tile[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = tile[31 - threadIdx.x];
}

// A shuffle does not order memory.
__global__ void shuffle_for_syncwarp(const float* in, float* out) {
  __shared__ float tile[32];
  tile[threadIdx.x] = in[threadIdx.x];
  const float sum = __shfl_xor_sync(~0u, in[threadIdx.x], 1);
  out[threadIdx.x] = tile[31 - threadIdx.x] + sum;
}

// __syncwarp orders one warp, not two.
__global__ void syncwarp_for_syncthreads(const float* in, float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = 0;
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void plain_beside_atomic(int* out) {
  __shared__ int count;
  count = 0;
  atomicAdd(&count, 1);
  __syncthreads();
  out[threadIdx.x] = count;
}

// --- Between blocks, in global memory.

__global__ void blocks_write_same(float* out) { out[threadIdx.x] = blockIdx.x; }

__global__ void block_reads_other(float* data) {
  data[blockIdx.x * 32 + threadIdx.x] = 1;
  data[blockIdx.x * 32 + threadIdx.x] += data[(blockIdx.x ^ 1) * 32 + threadIdx.x];
}

// Written in place while another block still reads.
__global__ void stencil_in_place(float* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float left = data[(i + n - 1) % n];
  data[i] += left;
}

// The halves of words are told apart.
__global__ void halves_overlap(unsigned short* data) { data[blockIdx.x * 31 + threadIdx.x] = 1; }

__global__ void atomic_beside_store(int* counter) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *counter = 0;
  if (threadIdx.x == 0) atomicAdd(counter, 1);
}

// A last-block reduction without its fence.
__global__ void missing_fence(const float* in, float* partial, unsigned* count, float* out) {
  __shared__ bool is_last;
  partial[blockIdx.x * 32 + threadIdx.x] = in[blockIdx.x * 32 + threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(count, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!is_last) return;
  float sum = 0;
  for (int i = 0; i < gridDim.x; ++i) sum += partial[i * 32 + threadIdx.x];
  out[threadIdx.x] = sum;
}
}
