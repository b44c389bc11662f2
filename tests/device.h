// The device that tests run on. A test makes its operands there and reads results by to_vector(),
// so that one text of it serves every device: the same binary runs again with
// MOBIUS_TEST_DEVICE=test, on the guarded device (tests/guarded/guarded_device.h).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "core/backend.h"
#include "core/ops/random.h"
#include "core/tensor.h"

namespace mobius::testing {

/// The one that the environment variable MOBIUS_TEST_DEVICE names ("cpu", "test"), or the CPU.
inline Device device() {
  static const Device chosen = [] {
    const char* const name = std::getenv("MOBIUS_TEST_DEVICE");
    return device_from_name(name ? name : "cpu");
  }();
  return chosen;
}

/// The makers of Tensor, on the device of the tests.
struct placed {
  static Tensor empty(Shape shape, DType dtype = DType::f32) {
    return Tensor::empty(std::move(shape), dtype, device());
  }
  static Tensor full(Shape shape, double value, DType dtype = DType::f32) {
    return Tensor::full(std::move(shape), value, dtype, device());
  }
  static Tensor zeros(Shape shape, DType dtype = DType::f32) {
    return Tensor::zeros(std::move(shape), dtype, device());
  }
  static Tensor ones(Shape shape, DType dtype = DType::f32) {
    return Tensor::ones(std::move(shape), dtype, device());
  }
  static Tensor arange(std::int64_t n, DType dtype = DType::i64) {
    return Tensor::arange(n, dtype, device());
  }
  static Tensor random_uniform(Shape shape, double low, double high, RngKey key,
                               DType dtype = DType::f32) {
    return mobius::random_uniform(std::move(shape), low, high, key, dtype, device());
  }
  static Tensor random_normal(Shape shape, double mean, double stddev, RngKey key,
                              DType dtype = DType::f32) {
    return mobius::random_normal(std::move(shape), mean, stddev, key, dtype, device());
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, Shape shape) {
    return Tensor::from(values, std::move(shape), device());
  }
};

}  // namespace mobius::testing

namespace mobius {
using testing::placed;
}

/// Ends a test that looks at the memory of tensors, on a device that hides it.
#define MOBIUS_CPU_ONLY()                                  \
  if (::mobius::testing::device() != ::mobius::Device{}) { \
    GTEST_SKIP() << "it looks at the memory of tensors";   \
  }                                                        \
  static_assert(true)
