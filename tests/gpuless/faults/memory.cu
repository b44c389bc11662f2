// Kernels with one fault each in how they use memory.

extern "C" {

__global__ void store_past_end(float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) out[i] = 1;
}

__global__ void load_before_start(const float* in, float* out) {
  out[threadIdx.x] = in[static_cast<int>(threadIdx.x) - 1];
}

__global__ void misaligned(const char* in, float* out) {
  out[threadIdx.x] = *reinterpret_cast<const float*>(in + 2 + 4 * threadIdx.x);
}

__global__ void copy(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }

__global__ void sum_of_bytes(const unsigned char* in, int* out) {
  out[threadIdx.x] = in[2 * threadIdx.x] + in[2 * threadIdx.x + 1];
}

__global__ void shared_past_end(float* out, int n) {
  extern __shared__ float tile[];
  tile[threadIdx.x + n] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x + n];
}

__global__ void shared_unwritten(float* out) {
  __shared__ float tile[64];
  if (threadIdx.x < 31) tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}

// What one block wrote is unwritten in the next.
__global__ void shared_of_last_block(float* out) {
  __shared__ float tile[32];
  if (blockIdx.x == 0) tile[threadIdx.x] = 1;
  __syncthreads();
  out[blockIdx.x * 32 + threadIdx.x] = tile[threadIdx.x];
}

__global__ void shared_misaligned(float* out, int offset) {
  __shared__ __align__(16) char bytes[256];
  *reinterpret_cast<float*>(bytes + offset + 4 * threadIdx.x) = 1;
  __syncthreads();
  out[threadIdx.x] = *reinterpret_cast<float*>(bytes + 4 * threadIdx.x);
}

__global__ void local_past_end(const int* index, int* out) {
  int table[8];
  for (int i = 0; i < 8; ++i) table[i] = index[i] + i;
  out[threadIdx.x] = table[index[8] + threadIdx.x];
}

__global__ void local_unwritten(const int* index, int* out) {
  int table[8];
  for (int i = 0; i < index[8]; ++i) table[index[i]] = i;
  out[threadIdx.x] = table[threadIdx.x % 8];
}

__global__ void never_ends(volatile int* flag) {
  while (*flag == 0) {
  }
}

__global__ void fails_assertion(int n) {
  if (threadIdx.x == 3) asm volatile("trap;");
}
}
