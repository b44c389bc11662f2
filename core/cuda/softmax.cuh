// The largest number of a row and the sum of the exponentials, in one pass.
#pragma once

#include <cmath>
#include <limits>

#include "core/cuda/rows.cuh"

namespace mobius::cuda {

/// sum = sum_j e^(x_j - largest) over the numbers so far. A NaN stays in the sum; `largest` is
/// never NaN. Numbers that are -inf add nothing.
template <class T>
struct RunningSoftmax {
  T largest = -std::numeric_limits<T>::infinity();
  T sum = 0;

  /// Adds the numbers of a pack, those that do not exist being -inf.
  template <int kWidth>
  __device__ void add(const Pack<T, kWidth>& x) {
    T most = largest;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) most = fmax(most, x[i]);
    move_to(most);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum += relative(x[i]);
  }
  /// Adds up those of the threads of a team, in all of them.
  __device__ void combine_team() {
    move_to(team_reduce(largest, -std::numeric_limits<T>::infinity(), Larger()));
    sum = team_sum(sum);
  }
  /// The softmax of x among the numbers so far: 0, or NaN if there was one, where none was larger
  /// than -inf.
  __device__ T weight(T x, T inverse_sum) const {
    return is_empty() ? sum : std::exp(x - largest) * inverse_sum;
  }

 private:
  __device__ bool is_empty() const { return largest == -std::numeric_limits<T>::infinity(); }

  __device__ void move_to(T most) {
    if (most != largest && !is_empty()) sum *= std::exp(largest - most);
    largest = most;
  }
  /// e^(x - largest), without the NaN of -inf - -inf.
  __device__ T relative(T x) const {
    if (is_empty()) return x == x ? T{0} : x;
    return std::exp(x - largest);
  }
};

}  // namespace mobius::cuda
