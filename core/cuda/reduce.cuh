// Sums and maxima over the threads of a warp or a block, in a fixed order: the same bits in every
// run, and in every thread that gets the result.
#pragma once

#include <cuda_runtime.h>

namespace mobius::cuda {

constexpr unsigned all_lanes = 0xffffffffu;

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// The larger of two; a NaN if there is one.
struct Larger {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};

/// The x of the lane whose number differs in the bits of `mask`. A struct that is reduced has an
/// overload of its own.
template <class T>
__device__ T shuffle_xor(T x, int mask) {
  return __shfl_xor_sync(all_lanes, x, mask);
}

/// The combination of x of the `kWidth` adjacent lanes around this one (a power of two). All lanes
/// of the warp must call it.
template <int kWidth = 32, class T, class Combine>
__device__ T warp_reduce(T x, Combine combine) {
  for (int offset = kWidth / 2; offset > 0; offset /= 2) x = combine(x, shuffle_xor(x, offset));
  return x;
}
template <int kWidth = 32, class T>
__device__ T warp_sum(T x) {
  return warp_reduce<kWidth>(x, Plus());
}
template <int kWidth = 32, class T>
__device__ T warp_max(T x) {
  return warp_reduce<kWidth>(x, Larger());
}

/// The combination of x of all threads of the block, in every one of them. `identity` leaves any x
/// as it is. The block is one-dimensional, of whole warps, and all its threads must call it.
template <class T, class Combine>
__device__ T block_reduce(T x, T identity, Combine combine) {
  __shared__ T of_warps[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  x = warp_reduce(x, combine);
  __syncthreads();  // an earlier call may still be reading
  if (lane == 0) of_warps[warp] = x;
  __syncthreads();
  return warp_reduce(lane < blockDim.x / 32 ? of_warps[lane] : identity, combine);
}
template <class T>
__device__ T block_sum(T x) {
  return block_reduce(x, T{0}, Plus());
}

}  // namespace mobius::cuda
