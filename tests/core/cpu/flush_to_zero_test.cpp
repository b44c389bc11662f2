// Subnormal numbers are 0 to all arithmetic of the kernels, on whatever thread it runs.
#include "core/cpu/simd/flush_to_zero.h"

#include <atomic>
#include <cmath>
#include <set>
#include <thread>

#include "core/backend.h"
#include "core/ops.h"
#include "tests/core/ops/kernel_testing.h"
#include "tests/device.h"

namespace mobius::flush_to_zero_test {
namespace {

using testing::ThreadCountGuard;

constexpr float subnormal = 1e-40f;

// Products that the compiler cannot compute: of two normal numbers, whose result is subnormal, and
// of a subnormal one, whose result is not.
bool flushes_results() {
  volatile float x = 1e-20f;
  return x * x == 0;
}
bool flushes_operands() {
  volatile float x = subnormal;
  return x * 1e20f == 0;
}
bool flushes() { return flushes_results() && flushes_operands(); }

// How many of `threads` threads flush, each of them running one chunk.
int threads_that_flush(int threads) {
  set_num_threads(threads);
  std::atomic<int> arrived = 0, flushing = 0;
  parallel_for(threads, 1, [&](std::int64_t, std::int64_t) {
    ++arrived;
    while (arrived < threads) std::this_thread::yield();  // each chunk needs a thread of its own
    flushing += flushes();
  });
  return flushing;
}

TEST(FlushToZero, HoldsOnEveryThreadHoweverLateItStarts) {
  const ThreadCountGuard guard;
  for (const int threads : {1, 2, 3, 7, 2}) EXPECT_EQ(threads_that_flush(threads), threads);
}

TEST(FlushToZero, HoldsInAThreadOfTheCaller) {
  const ThreadCountGuard guard;
  int flushing = 0;
  std::thread([&] { flushing = threads_that_flush(1) + threads_that_flush(2); }).join();
  EXPECT_EQ(flushing, 3);
}

TEST(FlushToZero, LeavesTheCallersArithmeticAsItWas) {
  const ThreadCountGuard guard;
  for (const int threads : {1, 2}) {
    EXPECT_EQ(threads_that_flush(threads), threads);
    EXPECT_FALSE(flushes_results());
    EXPECT_FALSE(flushes_operands());
  }
  const FlushToZero own;
  EXPECT_EQ(threads_that_flush(2), 2);
  EXPECT_TRUE(flushes());
}

TEST(FlushToZero, EndsWithWhatAChunkThrows) {
  for (const int threads : {1, 2}) {
    const ThreadCountGuard guard;
    set_num_threads(threads);
    EXPECT_THROW(parallel_for(4, 1, [](std::int64_t, std::int64_t) { throw Error("no"); }), Error);
    EXPECT_FALSE(flushes_results());
  }
}

template <class T>
class Flushed : public ::testing::Test {};
using RealTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Flushed, RealTypes);

// In one chunk and in several, in vectors and in what is left over.
TYPED_TEST(Flushed, OperationsGiveZero) {
  const ThreadCountGuard guard;
  set_num_threads(2);
  const double tiny = std::sqrt(static_cast<double>(std::numeric_limits<TypeParam>::min())) / 8;
  const DType type = dtype_of<TypeParam>();
  for (const std::int64_t n : {1, 7, 65, 40001}) {
    const Tensor x = Tensor::full({n}, tiny, type);
    for (const TypeParam value : mul(x, x).to_vector<TypeParam>()) ASSERT_EQ(value, 0) << n;
  }
  const Tensor a = Tensor::full({65, 3}, tiny, type), b = Tensor::full({3, 17}, tiny, type);
  for (const TypeParam value : matmul(a, b).to_vector<TypeParam>()) ASSERT_EQ(value, 0);
}

// The moments of a row of the embedding that gets no gradients any more.
TYPED_TEST(Flushed, MomentsDecayToZero) {
  const DType type = dtype_of<TypeParam>();
  const auto least = static_cast<double>(std::numeric_limits<TypeParam>::min());
  const Tensor zero = placed::zeros({9}, type), parameter = placed::ones({9}, type);
  const Tensor m = placed::full({9}, least, type), v = placed::full({9}, least, type);
  const ParameterUpdate update = {zero, parameter, {m, v}};
  adamw({.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0}, std::span(&update, 1),
        testing::update_scalars(0.1, 1000));
  for (const Tensor& moment : {m, v})
    for (const TypeParam value : moment.to_vector<TypeParam>()) EXPECT_EQ(value, 0);
}

// What is read or written is not computed with.
TEST(FlushToZero, CopiesStayWhatTheyAre) {
  const std::vector<float> values(33, subnormal);
  const Tensor x = Tensor::from(values, {33});
  EXPECT_EQ(x.clone().to_vector<float>(), values);
  EXPECT_EQ(concat({x, x}, 0).slice(0, 33, 66).to_vector<float>(), values);
}

}  // namespace
}  // namespace mobius::flush_to_zero_test
