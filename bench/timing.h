// Wall times of calls, and the peak that they are compared with.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "core/backend.h"
#include "core/ops.h"

namespace mobius {

/// Waits for everything that was queued on a device: a read comes behind it.
inline void wait_for(Device device) {
  if (!backend_for(device).reads_are_free) Tensor::zeros({1}, DType::f32, device).item();
}

/// Returns the largest number of bytes in use at a time on a device, in MiB.
inline double device_peak_mb(Device device) {
  return static_cast<double>(allocator_for(device).stats().peak) / (1 << 20);
}

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

/// Returns the GFLOP/s of the fastest of several products of square matrices of n rows.
inline double matmul_gflop_s(Device device, MatmulPrecision precision, std::int64_t n,
                             double seconds = 1) {
  const auto operand = [&](std::uint64_t stream) {
    return product_operand(random_normal({n, n}, 0, 1, {1, stream}, DType::f32, device), precision);
  };
  const Tensor a = operand(6), b = operand(7);
  const std::vector<double> ms = time_calls(
      [&] {
        matmul(a, b);
        wait_for(device);
      },
      seconds, 3);
  return 2e-6 * static_cast<double>(n * n * n) / ms.front();
}
/// That of f32 on the CPU, the peak that shares are relative to.
inline double matmul_gflop_s() { return matmul_gflop_s(Device{}, MatmulPrecision::full, 2048); }

}  // namespace mobius
