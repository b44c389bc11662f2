#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "tests/gpuless/ptx/kernel_runner.h"

namespace mobius::ptx {
namespace libm {

KernelRunner kernels() { return KernelRunner(std::string(GPULESS_KERNELS) + "/libm.ptx"); }

// Compares a kernel to the host on a range of x, for several y, in units of the last place.
template <typename T>
void expect_close(const std::string& kernel, const std::function<double(double, double)>& host,
                  double low, double high, double ulps = 2) {
  KernelRunner runner = kernels();
  constexpr std::size_t kCount = 1500;
  std::vector<T> x(kCount);
  std::vector<T> y(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    x[i] = static_cast<T>(low + (high - low) * static_cast<double>(i) / (kCount - 1));
    y[i] = static_cast<T>(0.5 + static_cast<double>(i % 97) / 17);
  }
  const auto out = runner.allocate<T>(kCount);
  runner.run(kernel, {12, 1, 1}, {128, 1, 1}, runner.upload(x), runner.upload(y), out,
             static_cast<int>(kCount));
  const auto result = runner.download<T>(out, kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const double expected = host(x[i], y[i]);
    const double unit =
        std::ldexp(1.0, std::max(std::ilogb(expected), -1021) - (sizeof(T) == 8 ? 52 : 23));
    ASSERT_LE(std::fabs(static_cast<double>(result[i]) - expected), ulps * unit)
        << kernel << " of " << x[i] << ", " << y[i];
  }
}

std::function<double(double, double)> of(double (*f)(double)) {
  return [f](double x, double) { return f(x); };
}

TEST(Libm, Double) {
  expect_close<double>("double_sin", of(std::sin), -10, 10.3);
  expect_close<double>("double_sin", of(std::sin), 1e9, 1e12);
  expect_close<double>("double_cos", of(std::cos), -1e6, 1.1e6);
  expect_close<double>("double_exp", of(std::exp), -700, 700);
  expect_close<double>("double_log", of(std::log), 1e-3, 1e3);
  expect_close<double>(
      "double_pow", [](double x, double y) { return std::pow(x, y); }, 0.01, 50);
  expect_close<double>("double_lgamma", of(std::lgamma), 2.5, 50);
  expect_close<double>("double_erf", of(std::erf), 0.01, 5);
  expect_close<double>("double_tanh", of(std::tanh), 0.01, 5);
  expect_close<double>(
      "double_rsqrt", [](double x, double) { return 1 / std::sqrt(x); }, 0.01, 50);
  expect_close<double>("double_log1p", of(std::log1p), -0.9, 5);
  expect_close<double>("double_expm1", of(std::expm1), -4, 5.1);
  expect_close<double>(
      "double_atan2", [](double x, double y) { return std::atan2(x, y); }, -4, 5.1);
}

TEST(Libm, Float) {
  expect_close<float>("float_sin", of(std::sin), -10, 10.3);
  expect_close<float>("float_sin", of(std::sin), 1e6, 1e9);
  expect_close<float>("float_exp", of(std::exp), -80, 80);
  expect_close<float>("float_log", of(std::log), 1e-3, 1e3);
  expect_close<float>(
      "float_pow", [](double x, double y) { return std::pow(x, y); }, 0.1, 50, 4);
  expect_close<float>("float_lgamma", of(std::lgamma), 3, 50, 6);
  expect_close<float>("float_erf", of(std::erf), 0.01, 5);
}

std::vector<int> counting(int count) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(Calls, RecursionWithLanesAtDifferentDepths) {
  KernelRunner runner = kernels();
  const auto out = runner.allocate<int>(40);
  runner.run("recursion", {}, {40, 1, 1}, out);
  const auto result = runner.download<int>(out, 40);
  const int fibonacci[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(result[i], fibonacci[i % 12]);
}

TEST(Calls, PointersToLocalArrays) {
  KernelRunner runner = kernels();
  const auto out = runner.allocate<int>(8 * 32);
  runner.run("local_array", {}, {32, 1, 1}, runner.upload(counting(8)), out);
  const auto result = runner.download<int>(out, 8 * 32);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const int last = 7 - lane % 2;
      EXPECT_EQ(result[static_cast<std::size_t>(8 * lane + i)], (i <= last ? last - i : i) + lane);
    }
  }
}

TEST(Calls, PointersToFunctions) {
  KernelRunner runner = kernels();
  const auto out = runner.allocate<int>(32);
  runner.run("pointers", {}, {32, 1, 1}, out);
  const auto result = runner.download<int>(out, 32);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(result[static_cast<std::size_t>(i)], i % 2 == 0 ? i + 1 : 2 * i);
}

TEST(Calls, ParametersByValue) {
  struct Vector {
    int values[6] = {3, 1, 4, 1, 5, 9};
  };
  KernelRunner runner = kernels();
  const auto out = runner.allocate<int>(6);
  runner.run("by_value", {}, {6, 1, 1}, Vector{}, out);
  EXPECT_EQ(runner.download<int>(out, 6), (std::vector<int>{3, 1, 4, 1, 5, 9}));
}

TEST(Calls, VariablesOfTheModule) {
  KernelRunner runner = kernels();
  const auto out = runner.allocate<float>(4);
  runner.run("variables", {}, {4, 1, 1}, out);
  EXPECT_EQ(runner.download<float>(out, 4), (std::vector<float>{8, 9, 10, 11}));
  const DeviceMemory::Range total = runner.module.symbol("total");
  EXPECT_EQ(total.bytes, 4u);
  const int value = 100;
  runner.memory.copy_from_host(total.address, &value, 4);
  runner.run("variables", {}, {4, 1, 1}, out);
  EXPECT_EQ(runner.download<float>(out, 4), (std::vector<float>{101, 102, 103, 104}));
  EXPECT_THROW(runner.module.symbol("nothing"), Fault);
}

TEST(Control, LanesGoManyWays) {
  KernelRunner runner = kernels();
  const auto data = runner.upload(counting(64));
  runner.run("many_ways", {}, {64, 1, 1}, data);
  const auto result = runner.download<int>(data, 64);
  for (int i = 0; i < 64; ++i) {
    const int expected[] = {i * 3, i + 7, i ^ 9, i - i / 3, i / 3, i % 7, i * i + 1, -i};
    EXPECT_EQ(result[static_cast<std::size_t>(i)], expected[i % 8]);
  }
}

TEST(System, Prints) {
  KernelRunner runner = kernels();
  testing::internal::CaptureStdout();
  runner.run("prints", {}, {4, 1, 1}, 12);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "n = 12,  1.50, text, c%\n");
}

TEST(System, FailedAssertionIsAFault) {
  KernelRunner runner = kernels();
  EXPECT_NO_THROW(runner.run("asserts", {}, {32, 1, 1}, 32));
  const std::string fault = runner.fault_of("asserts", {}, {32, 1, 1}, 31);
  EXPECT_NE(fault.find("assertion `static_cast<int>(threadIdx.x) < n` failed"), std::string::npos)
      << fault;
  EXPECT_NE(fault.find("thread (31,0,0)"), std::string::npos) << fault;
}

}  // namespace libm
}  // namespace mobius::ptx
