// The angles of rotary position embedding (docs/MATH.md, section 5), as a table made once per call
// and read by all heads.
#pragma once

#include <cmath>

#include "core/cuda/launch.cuh"
#include "core/cuda/vector.cuh"
#include "core/tensor.h"

namespace mobius::cuda {

/// A table of n_rows rows, each the `half` cosines and then the `half` sines of
/// sign * position * base^(-t / half), position = offset + row. `frequencies` has `half` numbers.
template <class T>
struct RotationTable {
  T* data = nullptr;  // null: no rotation
  std::int64_t half = 0;

  template <int kWidth>
  __device__ Pack<T, kWidth> cosines(std::int64_t row, PackPlace<kWidth> place) const {
    return load(data + 2 * row * half, place);
  }
  template <int kWidth>
  __device__ Pack<T, kWidth> sines(std::int64_t row, PackPlace<kWidth> place) const {
    return load(data + (2 * row + 1) * half, place);
  }
};

/// Rows of the table that a thread computes, for one frequency.
constexpr int rotations_each = 8;

/// A thread has one t and some rows. The angles are in double, because they reach thousands of
/// turns.
template <class T>
__global__ void rotations_kernel(RotationTable<T> table, std::int64_t n_rows, double base,
                                 std::int64_t offset, int sign) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t t = thread % table.half, first = thread / table.half * rotations_each;
  if (first >= n_rows) return;
  const double frequency = pow(base, -static_cast<double>(t) / static_cast<double>(table.half));
  for (std::int64_t row = first; row < n_rows && row < first + rotations_each; ++row) {
    double sine, cosine;
    sincos(sign * static_cast<double>(offset + row) * frequency, &sine, &cosine);
    T* const to = table.data + 2 * row * table.half + t;
    to[0] = static_cast<T>(cosine);
    to[table.half] = static_cast<T>(sine);
  }
}

/// The table with the memory that it lies in.
template <class T>
class Rotations {
 public:
  Rotations(std::int64_t n_rows, std::int64_t half, double base, std::int64_t offset, int sign,
            Device device)
      : memory_(Tensor::empty({n_rows, 2, half}, dtype_of<T>(), device)) {
    const std::int64_t threads = ceil_div(n_rows, std::int64_t{rotations_each}) * half;
    launch(rotations_kernel<T>, for_elements(threads), table(), n_rows, base, offset, sign);
  }
  RotationTable<T> table() const { return {memory_.data<T>(), memory_.size(2)}; }

 private:
  Tensor memory_;
};

/// Rotates the pairs (a, b).
template <class T, int kWidth>
__device__ void rotate(Pack<T, kWidth>& a, Pack<T, kWidth>& b, const Pack<T, kWidth>& cosine,
                       const Pack<T, kWidth>& sine) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const T x = a[i], y = b[i];
    a[i] = std::fma(x, cosine[i], -y * sine[i]);
    b[i] = std::fma(x, sine[i], y * cosine[i]);
  }
}

}  // namespace mobius::cuda
