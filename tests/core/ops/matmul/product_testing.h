// Matrix products by plain loops in long double, and how near the kernels must come.
#pragma once

#include <omp.h>

#include <cmath>
#include <vector>

#include "core/ops.h"
#include "tests/core/ops/kernel_testing.h"

namespace mobius::testing {

/// Matrices [rows, cols] that lie in memory in every way: dense along rows, along columns, along
/// neither, repeated.
inline std::vector<Tensor> matrix_views(std::int64_t rows, std::int64_t cols, std::uint64_t seed,
                                        DType type) {
  const auto random = [&seed, type](Shape shape) {
    return random_tensor<double>(std::move(shape), seed++).to(type);
  };
  return {random({rows + 3, cols + 5}).slice(0, 1, rows + 1).slice(1, 3, cols + 3),
          random({cols + 5, rows + 3}).slice(0, 2, cols + 2).slice(1, 1, rows + 1).transpose(0, 1),
          random({rows, cols, 3}).slice(2, 1, 2).squeeze(2), random({rows, 1}).expand({rows, cols}),
          random({1, cols}).expand({rows, cols})};
}

/// An element of a product, and the sum of the absolute values of its terms.
struct Bounded {
  long double value;
  long double magnitude;
};

/// a[..., M, K] b[..., K, N] by plain loops, a and b with the batch shape of the result.
template <class T>
std::vector<Bounded> plain_matmul(const Tensor& a, const Tensor& b) {
  const std::int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  const std::int64_t batch = m * k > 0 ? a.numel() / (m * k) : 0;
  const std::vector<T> left = a.to_vector<T>(), right = b.to_vector<T>();
  std::vector<Bounded> out;
  for (std::int64_t i = 0; i < batch * m * n; ++i) {
    const std::int64_t matrix = i / (m * n), row = i / n % m, col = i % n;
    const T* from_left = left.data() + (matrix * m + row) * k;
    const T* from_right = right.data() + matrix * k * n + col;
    Bounded sum{0, 0};
    for (std::int64_t p = 0; p < k; ++p) {
      const long double term = static_cast<long double>(from_left[p]) * from_right[p * n];
      sum.value += term;
      sum.magnitude += std::abs(term);
    }
    out.push_back(sum);
  }
  return out;
}

/// Expects `got` to be a b + already, up to the rounding of k additions in any order: at most k / 2
/// units of the sum of magnitudes, far less for random signs.
template <class T>
void expect_product(const Tensor& a, const Tensor& b, const Tensor& got, double already = 0) {
  const std::vector<Bounded> want = plain_matmul<T>(a, b);
  const std::vector<T> values = got.to_vector<T>();
  ASSERT_EQ(values.size(), want.size());
  const double ulps = 2 + 0.5 * std::sqrt(static_cast<double>(a.size(-1)));
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_TRUE(
        near(values[i], want[i].value + already, ulps, want[i].magnitude + std::abs(already)))
        << to_string(a.shape()) << " x " << to_string(b.shape()) << " at " << i;
  }
}

/// Expects the f32 product of a single tile to have the same bits whatever number of threads OpenMP
/// would use, and to leave that number alone.
inline void expect_same_for_every_openmp_thread_count(const Tensor& a, const Tensor& b) {
  const ThreadCountGuard guard;
  set_num_threads(1);  // so that the tile is computed outside of any parallel region
  const int before = omp_get_max_threads();
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 4}) {
    omp_set_num_threads(threads);
    results.push_back(matmul(a, b).to_vector<float>());
    EXPECT_EQ(omp_get_max_threads(), threads);
  }
  omp_set_num_threads(before);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace mobius::testing
