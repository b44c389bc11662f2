// The instructions of tensor cores and of fast arithmetic that CUDA C++ has no words for, as of
// compute capability 8.0. Nothing else in the project has inline PTX.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace mobius::cuda {

// ---- copies from global to shared memory that do not pass through registers

/// Where a pointer to shared memory points, as the instructions below take it.
__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}
/// Starts to copy 16 bytes; both addresses are multiples of 16.
__device__ __forceinline__ void copy_async_16(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(to), "l"(from) : "memory");
}
/// Ends a group of copies of this thread.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
/// Waits until no more than the `kPending` newest groups of this thread are under way.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

// ---- matrices of bf16

/// Four 8 x 8 matrices. Lane l gives the address of row l % 8 of matrix l / 8, and gets, of each
/// matrix, the two elements from column 2 (l % 4) of row l / 4.
struct Matrices {
  std::uint32_t part[4];
};
__device__ __forceinline__ Matrices load_matrices(std::uint32_t row) {
  Matrices m;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(m.part[0]), "=r"(m.part[1]), "=r"(m.part[2]), "=r"(m.part[3])
               : "r"(row)
               : "memory");
  return m;
}
/// The same, each matrix transposed.
__device__ __forceinline__ Matrices load_matrices_transposed(std::uint32_t row) {
  Matrices m;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(m.part[0]), "=r"(m.part[1]), "=r"(m.part[2]), "=r"(m.part[3])
               : "r"(row)
               : "memory");
  return m;
}

/// sum[16, 8] += a[16, 16] b[16, 8]. Of the sum, lane l holds columns 2 (l % 4) and the next of row
/// l / 4 (elements 0 and 1) and of row l / 4 + 8 (elements 2 and 3). The quarters of a, in the
/// order of its parts, are those of rows 0 and 8 at column 0, then at column 8; b0 and b1 are the
/// transposed halves of b.
__device__ __forceinline__ void multiply_add(float (&sum)[4], const Matrices& a, std::uint32_t b0,
                                             std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a.part[0]), "r"(a.part[1]), "r"(a.part[2]), "r"(a.part[3]), "r"(b0), "r"(b1));
}

/// Two numbers rounded to bf16, `low` in the lower half.
__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// ---- arithmetic to about 22 bits, without denormal numbers

__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float fast_log2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float fast_inverse(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float fast_sqrt(float x) {
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}
/// a b + c, cut off to [0, 1].
__device__ __forceinline__ float saturated_mul_add(float a, float b, float c) {
  float y;
  asm("fma.rn.ftz.sat.f32 %0, %1, %2, %3;\n" : "=f"(y) : "f"(a), "f"(b), "f"(c));
  return y;
}

}  // namespace mobius::cuda
