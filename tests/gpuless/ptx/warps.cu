// What lanes do together: shuffles, votes, matches, cooperative groups, tensor instructions.

#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace groups = cooperative_groups;

extern "C" {

__global__ void shuffles(const int* in, int* out) {
  const int lane = threadIdx.x;
  const int x = in[lane];
  out[lane] = __shfl_sync(~0u, x, (lane * 7) % 32);
  out[32 + lane] = __shfl_up_sync(~0u, x, 3);
  out[64 + lane] = __shfl_down_sync(~0u, x, 5);
  out[96 + lane] = __shfl_xor_sync(~0u, x, 9);
  out[128 + lane] = __shfl_sync(~0u, x, 2, 8);
  out[160 + lane] = __shfl_down_sync(~0u, x, 1, 4);
}

__global__ void votes(const int* in, unsigned* out) {
  const int lane = threadIdx.x;
  const int x = in[lane];
  int is_same;
  out[lane] = __ballot_sync(~0u, x > 10);
  out[32 + lane] = __all_sync(~0u, x >= 0);
  out[64 + lane] = __any_sync(~0u, x > 1000);
  out[96 + lane] = __match_any_sync(~0u, x % 4);
  out[128 + lane] = __match_all_sync(~0u, x / 64, &is_same) + is_same;
  out[160 + lane] =
      __reduce_add_sync(~0u, x) + __reduce_max_sync(~0u, x) + __reduce_xor_sync(~0u, x);
  if (x % 2 == 1) out[192 + lane] = __activemask();
}

__global__ void block_votes(const int* in, int* out) {
  const int x = in[threadIdx.x];
  out[threadIdx.x] = __syncthreads_count(x % 3 == 0) + 1000 * __syncthreads_and(x >= 0) +
                     10000 * __syncthreads_or(x > 500);
}

__global__ void tiles(const float* in, float* out) {
  const auto block = groups::this_thread_block();
  const auto tile = groups::tiled_partition<8>(block);
  float x = in[block.thread_rank()];
  for (int k = tile.size() / 2; k > 0; k /= 2) x += tile.shfl_xor(x, k);
  tile.sync();
  block.sync();
  out[block.thread_rank()] = x;
  if (threadIdx.x % 3 == 0) {
    const auto active = groups::coalesced_threads();
    out[64 + threadIdx.x] = active.size() * 100 + active.thread_rank();
  }
}

__global__ void atomics(int* ints, float* floats, double* doubles, unsigned long long* longs) {
  __shared__ int shared[2];
  if (threadIdx.x < 2) shared[threadIdx.x] = 5;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(ints, i);
  atomicMax(ints + 1, i);
  atomicMin(ints + 2, -i);
  atomicOr(reinterpret_cast<unsigned*>(ints + 3), 1u << i % 32);
  atomicXor(reinterpret_cast<unsigned*>(ints + 4), 1u << i % 32);
  atomicInc(reinterpret_cast<unsigned*>(ints + 5), 6);
  atomicAdd(floats, 0.5f);
  atomicAdd(doubles, 0.25);
  atomicAdd(longs, 1ull << 33);
  // A compare-and-swap loop.
  unsigned long long old = longs[1 + blockIdx.x];
  for (unsigned long long expected = ~old; expected != old;) {
    expected = old;
    old = atomicCAS(longs + 1 + blockIdx.x, expected, expected + 3);
  }
  atomicAdd(shared, 2);
  const int ticket = atomicAdd(shared + 1, 1);
  __syncthreads();
  ints[8 + i] = shared[0];
  ints[8 + 64 + blockIdx.x * blockDim.x + ticket - 5] = shared[1];
}

// D = A B + C for one tile: A 16 x K, B K x 8 as stored, C and D 16 x 8. Fragments are read element
// by element.
__device__ unsigned pair(const __nv_bfloat16* low, const __nv_bfloat16* high) {
  return __bfloat16_as_ushort(*low) | static_cast<unsigned>(__bfloat16_as_ushort(*high)) << 16;
}

__global__ void product_bf16(const __nv_bfloat16* a, const __nv_bfloat16* b, const float* c,
                             float* d) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  unsigned x[4], y[2];
  float z[4];
  for (int i = 0; i < 4; ++i) {
    const __nv_bfloat16* const at = a + (g + 8 * (i % 2)) * 16 + 2 * t + 8 * (i / 2);
    x[i] = pair(at, at + 1);
    z[i] = c[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2];
  }
  for (int i = 0; i < 2; ++i)
    y[i] = pair(b + (2 * t + 8 * i) * 8 + g, b + (2 * t + 1 + 8 * i) * 8 + g);
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(z[0]), "+f"(z[1]), "+f"(z[2]), "+f"(z[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  for (int i = 0; i < 4; ++i) d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = z[i];
}

// The same by ldmatrix, of half-precision numbers with K = 8: B is transposed on the way.
__global__ void product_f16(const __half* a, const __half* b, const float* c, float* d) {
  __shared__ __align__(16) __half tile[24][8];
  for (int i = threadIdx.x; i < 128; i += 32) tile[i / 8][i % 8] = a[i];
  for (int i = threadIdx.x; i < 64; i += 32) tile[16 + i / 8][i % 8] = b[i];
  __syncwarp();
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  unsigned x[2], y;
  const auto row = static_cast<unsigned>(__cvta_generic_to_shared(&tile[threadIdx.x % 16][0]));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(x[0]), "=r"(x[1])
               : "r"(row));
  const auto inner =
      static_cast<unsigned>(__cvta_generic_to_shared(&tile[16 + threadIdx.x % 8][0]));
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(y) : "r"(inner));
  float z[4];
  for (int i = 0; i < 4; ++i) z[i] = c[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2];
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(z[0]), "+f"(z[1]), "+f"(z[2]), "+f"(z[3])
      : "r"(x[0]), "r"(x[1]), "r"(y));
  for (int i = 0; i < 4; ++i) d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = z[i];
}

__global__ void product_tf32(const unsigned* a, const unsigned* b, const float* c, float* d) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  unsigned x[4], y[2];
  float z[4];
  for (int i = 0; i < 4; ++i) {
    x[i] = a[(g + 8 * (i % 2)) * 8 + t + 4 * (i / 2)];
    z[i] = c[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2];
  }
  for (int i = 0; i < 2; ++i) y[i] = b[(t + 4 * i) * 8 + g];
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(z[0]), "+f"(z[1]), "+f"(z[2]), "+f"(z[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  for (int i = 0; i < 4; ++i) d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = z[i];
}

// Traffic that counters know: sectors of global memory and wavefronts of shared memory by stride.
__global__ void strided_read(const float* in, float* out, int stride) {
  out[threadIdx.x] = in[threadIdx.x * stride];
}

__global__ void strided_shared(float* out, int stride) {
  __shared__ float tile[32 * 33];
  for (int i = threadIdx.x; i < 32 * 33; i += 32) tile[i] = i;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x * stride];
}
}
