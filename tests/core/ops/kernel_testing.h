// What the kernel tests share: ragged sizes, operands, thread counts, comparison by tolerance.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/ops.h"
#include "core/parallel.h"
#include "core/rng.h"
#include "core/tensor.h"
#include "tests/device.h"

namespace mobius::testing {

/// Around the vector widths, and across the border of one and of two parallel chunks.
inline const std::vector<std::int64_t> ragged_sizes{0,  1,  2,  3,  7,  8,  9,   15,    16,
                                                    17, 31, 33, 63, 64, 65, 127, 16385, 40001};

/// A family of kernels of the device of the tests: `->` calls one between the hooks of the device.
template <class Family>
struct TestedFamily {
  Family* Backend::*family;
  KernelCall<Family> operator->() const { return kernels(device(), family); }
};

/// The kernels of the device of the tests, without the checks of the public functions.
struct TestedBackend {
  TestedFamily<CopyKernels> copy{&Backend::copy};
  TestedFamily<RandomKernels> random{&Backend::random};
  TestedFamily<ElementwiseKernels> elementwise{&Backend::elementwise};
  TestedFamily<ReduceKernels> reduce{&Backend::reduce};
  TestedFamily<MatmulKernels> matmul{&Backend::matmul};
  TestedFamily<RowsKernels> rows{&Backend::rows};
  TestedFamily<OptimizerKernels> optimizer{&Backend::optimizer};
};

inline constexpr TestedBackend tested;

/// Restores the thread count that it found.
class ThreadCountGuard {
 public:
  ThreadCountGuard() : before_(num_threads()) {}
  ~ThreadCountGuard() { set_num_threads(before_); }
  ThreadCountGuard(const ThreadCountGuard&) = delete;
  ThreadCountGuard& operator=(const ThreadCountGuard&) = delete;

 private:
  int before_;
};

/// Uniform in [low, high), from the host generator, whatever the kernels do.
template <class T>
std::vector<T> random_values(std::int64_t n, double low, double high, std::uint64_t seed) {
  Rng rng({seed, stream_id("test")});
  std::vector<T> values(static_cast<std::size_t>(n));
  for (T& value : values) value = static_cast<T>(low + (high - low) * rng.uniform());
  return values;
}

template <class T>
Tensor random_tensor(Shape shape, std::uint64_t seed, double low = -2, double high = 2) {
  const std::vector<T> values = random_values<T>(numel(shape), low, high, seed);
  return placed::from(values, std::move(shape));
}

/// 0, 1, 2, ... in f64.
inline Tensor counting(Shape shape) {
  return placed::arange(numel(shape), DType::f64).reshape(std::move(shape));
}

/// A dense view that begins in the middle of a vector of memory.
template <class T>
Tensor misaligned(const std::vector<T>& values) {
  std::vector<T> padded(values.size() + 3, T{});
  std::copy(values.begin(), values.end(), padded.begin() + 3);
  const auto n = static_cast<std::int64_t>(padded.size());
  return placed::from(padded, {n}).slice(0, 3, n);
}

/// Those of update `step`, with gradients as they are.
inline Tensor update_scalars(double learning_rate, int step, double factor = 1) {
  const std::vector<double> scalars = {learning_rate, static_cast<double>(step), factor, 0, 0, 0};
  return placed::from(scalars, {UpdateScalar::count});
}

/// |got - want| within `ulps` units of T in the last place of `scale` (of want when 0), or within
/// the smallest normal number.
template <class T>
::testing::AssertionResult near(T got, long double want, double ulps, long double scale = 0) {
  if (std::isnan(want)) {
    if (std::isnan(got)) return ::testing::AssertionSuccess();
  } else if (got == static_cast<T>(want)) {
    return ::testing::AssertionSuccess();
  }
  const long double epsilon = std::numeric_limits<T>::epsilon();
  const long double bound =
      ulps * epsilon * std::max(std::abs(want), std::abs(scale)) + std::numeric_limits<T>::min();
  const long double error = std::abs(static_cast<long double>(got) - want);
  if (error <= bound) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "got " << got << ", expected " << want << " within " << bound << ", off by " << error;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Calls make(), which returns a Tensor of T, with 1, 2 and 3 threads and expects the same bits.
template <class T, class Make>
void expect_same_for_every_thread_count(Make&& make) {
  const ThreadCountGuard guard;
  set_num_threads(1);
  const std::vector<T> want = make().template to_vector<T>();
  for (const int threads : {2, 3}) {
    set_num_threads(threads);
    EXPECT_TRUE(same_bits(want, make().template to_vector<T>())) << threads << " threads";
  }
}

}  // namespace mobius::testing

namespace mobius {
using testing::tested;
}
