// Rows that are shared by teams of threads: some lanes of a warp for short rows, a block for long
// ones.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/cuda/launch.cuh"
#include "core/cuda/reduce.cuh"
#include "core/cuda/vector.cuh"
#include "core/error.h"
#include "core/tensor.h"

namespace mobius::cuda {

// ---- teams

/// Threads of a block of teams, at most. Kernels of teams declare it as their launch bound.
constexpr int most_in_team = 512;

/// A team for each of `n_rows` rows, where `items` pieces of a row are to be shared among its
/// threads. A team of up to 32 threads is a power of two, with other teams in its warp; a larger
/// one is a block.
inline LaunchShape for_teams(std::int64_t n_rows, std::int64_t items) {
  const auto wanted = static_cast<unsigned>(std::clamp<std::int64_t>(items, 1, most_in_team));
  const unsigned size =
      wanted <= warp_size ? std::bit_ceil(wanted) : round_up<unsigned>(wanted, warp_size);
  const unsigned teams = size <= warp_size ? default_block / size : 1;
  return {.grid = dim3(static_cast<unsigned>(ceil_div<std::int64_t>(n_rows, teams))),
          .block = dim3(size, teams)};
}

/// The row of the calling thread's team. It may lie past the last one: such a team has to take part
/// in the sums of its warp.
__device__ inline std::int64_t row_of_team() {
  return std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
}

/// The combination of x of all threads of the team, in every one of them, in a fixed order.
/// `identity` leaves any x as it is. All threads of the block must call it.
template <class T, class Combine>
__device__ T team_reduce(T x, T identity, Combine combine) {
  if (blockDim.x > warp_size) return block_reduce(x, identity, combine);
  for (unsigned offset = blockDim.x / 2; offset > 0; offset /= 2)
    x = combine(x, __shfl_xor_sync(all_lanes, x, offset));
  return x;
}
template <class T>
__device__ T team_sum(T x) {
  return team_reduce(x, T{0}, Plus());
}

/// Calls f(place) for the packs of a row of n elements that the calling thread has. The packs begin
/// `shift` elements before the row: see pack_shift().
template <int kWidth, class F>
__device__ void for_packs_of_row(std::int64_t n, int shift, F&& f) {
  const std::int64_t step = std::int64_t{blockDim.x} * kWidth;
  for (std::int64_t j = std::int64_t{threadIdx.x} * kWidth - shift; j < n; j += step)
    f(PackPlace<kWidth>(j, n));
}

/// A row of which every thread keeps its first kKept packs in registers and reads the others anew
/// each time.
template <class T, int kWidth, int kKept>
class KeptRow {
 public:
  __device__ KeptRow(const T* row, std::int64_t n) : row_(row), n_(n) {
    shift_ = pack_shift<kWidth>(row);
#pragma unroll
    for (int i = 0; i < kKept; ++i)
      if (first(i) < n) kept_[i] = load(row, PackPlace<kWidth>(first(i), n));
  }
  /// Calls f(place, pack).
  template <class F>
  __device__ void for_packs(F&& f) const {
#pragma unroll
    for (int i = 0; i < kKept; ++i)
      if (first(i) < n_) f(PackPlace<kWidth>(first(i), n_), kept_[i]);
    for (int i = kKept; first(i) < n_; ++i) {
      const PackPlace<kWidth> place(first(i), n_);
      f(place, load(row_, place));
    }
  }
  /// The sum of term(x) over the elements x of the row, in f64.
  template <class Term>
  __device__ double sum(Term&& term) const {
    double sum = 0;
    for_packs([&](PackPlace<kWidth> place, const Pack<T, kWidth>& pack) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i)
        if (place.has(i)) sum += term(static_cast<double>(pack[i]));
    });
    return team_sum(sum);
  }

 private:
  __device__ std::int64_t first(int i) const {
    return (std::int64_t{i} * blockDim.x + threadIdx.x) * kWidth - shift_;
  }

  const T* row_;
  std::int64_t n_;
  int shift_;
  Pack<T, kWidth> kept_[kKept];
};

// ---- rows of strided tensors

/// Where the rows of a strided tensor start, by their number in row-major order: the row is what
/// lies along the last dimensions.
class RowStarts {
 public:
  RowStarts() = default;
  /// The last `kept` dimensions are the row. Throws Error if more than eight others cannot be
  /// merged.
  explicit RowStarts(const Tensor& x, int kept = 1) {
    for (int dim = x.ndim() - kept - 1; dim >= 0; --dim) append(x.size(dim), x.stride(dim));
  }

  /// In elements from the first of the tensor.
  __device__ std::int64_t operator[](std::int64_t row) const {
    std::int64_t start = 0;
    for (int i = 0; i + 1 < n_dims_; ++i) {
      const std::int64_t rest = row / dims_[i].size;
      start += (row - rest * dims_[i].size) * dims_[i].stride;
      row = rest;
    }
    return n_dims_ == 0 ? start : start + row * dims_[n_dims_ - 1].stride;
  }

 private:
  static constexpr int most = 8;
  struct Dim {
    std::int64_t size, stride;
  };

  void append(std::int64_t size, std::int64_t stride) {
    if (size == 1) return;
    if (n_dims_ > 0) {
      Dim& inner = dims_[n_dims_ - 1];
      if (stride == inner.size * inner.stride) {
        inner.size *= size;
        return;
      }
    }
    if (n_dims_ == most) throw Error("a tensor of more than {} strided dimensions", most);
    dims_[n_dims_++] = {size, stride};
  }

  int n_dims_ = 0;
  Dim dims_[most] = {};  // the innermost first
};

}  // namespace mobius::cuda
