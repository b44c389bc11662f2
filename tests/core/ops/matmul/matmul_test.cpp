// Matrix products against plain loops in long double: ragged shapes, every stride pattern, batches,
// accumulation, long k; the same bits for every thread count.

#include <functional>

#include "core/ops.h"
#include "tests/core/ops/matmul/product_testing.h"
#include "tests/error_of.h"

namespace mobius::matmul_test {
namespace {

using testing::counting;
using Values = std::vector<double>;
using testing::expect_product;
using testing::expect_same_for_every_thread_count;
using testing::matrix_views;
using testing::random_tensor;

template <class T>
class Matmul : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Matmul, Reals);

TYPED_TEST(Matmul, RaggedShapes) {
  using T = TypeParam;
  for (const std::int64_t m : {1, 2, 5, 6, 7, 17, 97})
    for (const std::int64_t n : {1, 3, 8, 15, 16, 17, 33, 65})
      for (const std::int64_t k : {1, 2, 7, 16, 31, 257}) {
        const Tensor a = random_tensor<T>({m, k}, 1), b = random_tensor<T>({k, n}, 2);
        expect_product<T>(a, b, matmul(a, b));
      }
}

TYPED_TEST(Matmul, LargerThanEveryBlock) {
  using T = TypeParam;
  const Tensor a = random_tensor<T>({515, 11}, 1), b = random_tensor<T>({11, 2051}, 2);
  expect_product<T>(a, b, matmul(a, b));
  const Tensor c = random_tensor<T>({1030, 300}, 3), d = random_tensor<T>({300, 20}, 4);
  expect_product<T>(c, d, matmul(c, d));
}

TYPED_TEST(Matmul, LongK) {
  using T = TypeParam;
  for (const std::int64_t k : {4095, 4096, 4097, 9000}) {
    const Tensor a = random_tensor<T>({k, 19}, 1), b = random_tensor<T>({k, 13}, 2);
    expect_product<T>(a.transpose(0, 1), b, matmul(a.transpose(0, 1), b));
  }
}

TYPED_TEST(Matmul, EveryStridePattern) {
  using T = TypeParam;
  const std::int64_t m = 9, n = 18, k = 21;
  const DType type = dtype_of<T>();
  for (const Tensor& a : matrix_views(m, k, 10, type))
    for (const Tensor& b : matrix_views(k, n, 20, type)) expect_product<T>(a, b, matmul(a, b));
}

TYPED_TEST(Matmul, BatchesBroadcastAndFold) {
  using T = TypeParam;
  const auto check = [](const Tensor& a, const Tensor& b) {
    const Tensor got = matmul(a, b);
    Shape batch(got.shape().begin(), got.shape().end() - 2), left = batch, right = batch;
    left.insert(left.end(), {a.size(-2), a.size(-1)});
    right.insert(right.end(), {b.size(-2), b.size(-1)});
    expect_product<T>(a.expand(left), b.expand(right), got);
  };
  const Tensor a = random_tensor<T>({3, 2, 7, 5}, 1), w = random_tensor<T>({5, 6}, 2);
  check(a, random_tensor<T>({3, 2, 5, 6}, 3));
  check(a, w);                                  // one matrix for all: folded
  check(a.transpose(0, 1), w);                  // not to be folded in memory order
  check(a, random_tensor<T>({2, 5, 6}, 4));     // shared along the first dimension
  check(a, random_tensor<T>({3, 1, 5, 6}, 5));  // and along the second
  check(random_tensor<T>({7, 5}, 6), random_tensor<T>({4, 5, 6}, 7));
  check(random_tensor<T>({4, 5, 7}, 8).transpose(1, 2), w);
  // Heads: [B, N, H, d] seen as [B, H, N, d], and its transpose.
  const Tensor q = random_tensor<T>({2, 9, 3, 8}, 9).transpose(1, 2);
  const Tensor k = random_tensor<T>({2, 9, 3, 8}, 10).transpose(1, 2);
  check(q, k.transpose(2, 3));
  check(random_tensor<T>({300, 1, 3}, 11), random_tensor<T>({300, 3, 2}, 12));
}

TYPED_TEST(Matmul, Accumulates) {
  using T = TypeParam;
  for (const std::int64_t k : {5, 300, 5000}) {
    const Tensor a = random_tensor<T>({6, k}, 1), b = random_tensor<T>({k, 9}, 2);
    Tensor out = placed::full({6, 9}, 3, dtype_of<T>());
    tested.matmul->matmul(a, b, true, out);
    expect_product<T>(a, b, out, 3);
  }
}

TYPED_TEST(Matmul, OverwritesWhateverWasThere) {
  using T = TypeParam;
  for (const std::int64_t k : {3, 5000}) {
    const Tensor a = random_tensor<T>({6, k}, 1), b = random_tensor<T>({k, 9}, 2);
    const Tensor out =
        placed::full({6, 9}, std::numeric_limits<double>::quiet_NaN(), dtype_of<T>());
    tested.matmul->matmul(a, b, false, out);
    expect_product<T>(a, b, out);
  }
}

TYPED_TEST(Matmul, EmptyOperands) {
  using T = TypeParam;
  const DType type = dtype_of<T>();
  EXPECT_EQ(matmul(placed::empty({0, 3}, type), placed::empty({3, 4}, type)).numel(), 0);
  EXPECT_EQ(matmul(placed::empty({2, 3, 4}, type), placed::empty({2, 4, 0}, type)).numel(), 0);
  const Tensor no_k = matmul(placed::empty({2, 0}, type), placed::empty({0, 3}, type));
  EXPECT_EQ(no_k.to_vector<T>(), std::vector<T>(6, T{0}));
  Tensor kept = placed::ones({2, 3}, type);
  tested.matmul->matmul(placed::empty({2, 0}, type), placed::empty({0, 3}, type), true, kept);
  EXPECT_EQ(kept.to_vector<T>(), std::vector<T>(6, T{1}));
}

TYPED_TEST(Matmul, SameBitsForEveryThreadCount) {
  using T = TypeParam;
  const auto check = [](const Tensor& a, const Tensor& b) {
    expect_same_for_every_thread_count<T>([&] { return matmul(a, b); });
  };
  check(random_tensor<T>({1100, 40}, 1), random_tensor<T>({40, 70}, 2));        // tiles of rows
  check(random_tensor<T>({40, 9000}, 3), random_tensor<T>({9000, 30}, 4));      // pieces of k
  check(random_tensor<T>({24, 50, 30}, 5), random_tensor<T>({24, 30, 20}, 6));  // a batch
  check(random_tensor<T>({200, 300}, 7), random_tensor<T>({300, 100}, 8));      // a single tile
}

TEST(MatmulF32, IgnoresTheThreadsThatOpenMPWouldUse) {
  testing::expect_same_for_every_openmp_thread_count(random_tensor<float>({1, 3000}, 1),
                                                     random_tensor<float>({3000, 48}, 2));
}

// ---- linear

template <class T>
class Linear : public ::testing::Test {};
TYPED_TEST_SUITE(Linear, Reals);

TYPED_TEST(Linear, ProductAndBias) {
  using T = TypeParam;
  for (const std::int64_t rows : {1, 7, 33, 700})
    for (const std::int64_t n : {1, 9, 16, 31}) {
      const Tensor x = random_tensor<T>({rows, 13}, 1), w = random_tensor<T>({n, 13}, 2);
      expect_product<T>(x, w.transpose(0, 1), linear(x, w));
      expect_product<T>(x, w.transpose(0, 1), linear(x, w, placed::full({n}, 2, dtype_of<T>())), 2);
      const Tensor bias = random_tensor<T>({n}, 3);
      const Tensor sum = add(linear(x, w), bias);
      EXPECT_EQ(linear(x, w, bias).to_vector<T>(), sum.to_vector<T>());
    }
}

TYPED_TEST(Linear, ActivationEqualsTheElementwiseFunction) {
  using T = TypeParam;
  const std::vector<std::pair<Activation, UnaryOp>> pairs{
      {Activation::relu, UnaryOp::relu},
      {Activation::silu, UnaryOp::silu},
      {Activation::gelu, UnaryOp::gelu},
      {Activation::gelu_tanh, UnaryOp::gelu_tanh}};
  const Tensor x = random_tensor<T>({3, 211, 17}, 1), w = random_tensor<T>({19, 17}, 2);
  for (const Tensor& bias : {Tensor(), random_tensor<T>({19}, 3)}) {
    for (const auto& [activation, op] : pairs) {
      const LinearActivation both = linear_activation(x, w, bias, activation);
      EXPECT_EQ(both.pre.to_vector<T>(), linear(x, w, bias).to_vector<T>());
      EXPECT_EQ(both.out.to_vector<T>(), unary({op}, both.pre).template to_vector<T>());
    }
  }
}

TYPED_TEST(Linear, EmptyOperands) {
  using T = TypeParam;
  const DType type = dtype_of<T>();
  EXPECT_EQ(linear(placed::empty({0, 3}, type), placed::empty({4, 3}, type)).numel(), 0);
  const Tensor bias = random_tensor<T>({4}, 1);
  const Tensor only_bias = linear(placed::empty({1, 0}, type), placed::empty({4, 0}, type), bias);
  EXPECT_EQ(only_bias.to_vector<T>(), bias.to_vector<T>());
}

TYPED_TEST(Linear, SameBitsForEveryThreadCount) {
  using T = TypeParam;
  const Tensor x = random_tensor<T>({1300, 24}, 1), w = random_tensor<T>({40, 24}, 2);
  const Tensor bias = random_tensor<T>({40}, 3);
  expect_same_for_every_thread_count<T>(
      [&] { return linear_activation(x, w, bias, Activation::gelu).out; });
}

TEST(MatmulOps, MatmulChecksShapesAndBroadcastsBatches) {
  const Tensor a = counting({2, 1, 2, 3}), b = counting({4, 3, 2});
  const Tensor c = matmul(a, b);
  EXPECT_EQ(c.shape(), (Shape{2, 4, 2, 2}));
  EXPECT_EQ(c.slice(0, 1, 2).slice(1, 2, 3).to_vector<double>(),
            matmul(a.slice(0, 1, 2).reshape({2, 3}), b.slice(0, 2, 3).reshape({3, 2}))
                .to_vector<double>());
  EXPECT_EQ(error_of([&] {
              (void)matmul(counting({2, 3}), counting({2, 3}));
            }),
            "matmul: [2, 3] x [2, 3]: expected [..., M, K] x [..., K, N]");
  Tensor out = placed::ones({2, 2}, DType::f64);
  matmul_add(out, counting({2, 1}), counting({1, 2}));
  EXPECT_EQ(out.to_vector<double>(), (Values{1, 1, 1, 2}));
}

}  // namespace
}  // namespace mobius::matmul_test
