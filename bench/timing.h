// Wall times of calls, and the peak that they are compared with.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "core/ops.h"

namespace mobius {

/// Returns the milliseconds that a call takes.
inline double ms_of(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Returns the times of calls in ms, ascending. Makes at least `least` calls, for at least
/// `seconds`.
inline std::vector<double> time_calls(const std::function<void()>& call, double seconds,
                                      std::size_t least) {
  std::vector<double> ms;
  for (double spent = 0; ms.size() < least || spent < 1e3 * seconds;) {
    ms.push_back(ms_of(call));
    spent += ms.back();
  }
  std::sort(ms.begin(), ms.end());
  return ms;
}

/// Returns the GFLOP/s of the fastest of several f32 products of square matrices, the peak that
/// shares are relative to.
inline double matmul_gflop_s() {
  constexpr std::int64_t n = 2048;
  const Tensor a = random_normal({n, n}, 0, 1, {1, 6}), b = random_normal({n, n}, 0, 1, {1, 7});
  const std::vector<double> ms = time_calls([&] { matmul(a, b); }, 1, 3);
  return 2e-6 * static_cast<double>(n * n * n) / ms.front();
}

}  // namespace mobius
