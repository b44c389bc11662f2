// Products of bf16 operands: those of the rounded numbers, summed in f32. On a processor without
// such products, and with MOBIUS_ISA=avx2, it is f32 that computes them, to the same accuracy.

#include <bit>
#include <limits>

#include "core/cpu/simd/isa.h"
#include "core/ops.h"
#include "tests/core/ops/matmul/product_testing.h"
#include "tests/error_of.h"

namespace mobius::bf16_product_test {
namespace {

using testing::expect_product;
using testing::expect_same_for_every_thread_count;
using testing::matrix_views;
using testing::random_tensor;

Tensor random_bf16(Shape shape, std::uint64_t seed) {
  return random_tensor<float>(std::move(shape), seed).to(DType::bf16);
}

// ---- rounding

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Of the bf16 numbers on both sides, the nearer; of two as near, the even one. In double, where all
// distances are exact. Beyond the largest, 2^128 stands for infinity.
float nearest_bf16(float value) {
  if (!std::isfinite(value)) return value;
  const std::uint32_t below_bits = std::bit_cast<std::uint32_t>(value) & 0xffff0000u;
  const auto number = [](std::uint32_t bits) {
    const float x = std::bit_cast<float>(bits);
    return std::isinf(x) ? std::copysign(std::ldexp(1.0, 128), x) : static_cast<double>(x);
  };
  const double down = std::abs(value - number(below_bits));
  const double up = std::abs(value - number(below_bits + 0x10000u));
  const bool is_below_even = (below_bits & 0x10000u) == 0;
  const bool goes_down = down < up || (down == up && is_below_even);
  return std::bit_cast<float>(goes_down ? below_bits : below_bits + 0x10000u);
}

TEST(Bf16, RoundsToTheNearestAndTiesToEven) {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.0f,
                               1.00390625f,      // a tie: down to 1
                               1.01171875f,      // a tie: up to 1.015625
                               -1.00390625f,     //
                               1.00390637f,      // above the tie
                               1.00390613f,      // below it
                               3.38953139e38f,   // the largest
                               3.39615136e38f,   // halfway from there to infinity
                               3.39e38f,         // below that
                               1e-40f,           // no normal number
                               1.17549435e-38f,  // the smallest normal one
                               kInfinity,
                               -kInfinity};
  Rng rng({7, 1});
  for (int i = 0; i < 100000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(rng.below(1ull << 32)));
    if (!std::isnan(value)) values.push_back(value);
  }
  const auto n = static_cast<std::int64_t>(values.size());
  const auto got = placed::from(values, {n}).to(DType::bf16).to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]),
              std::bit_cast<std::uint32_t>(nearest_bf16(values[i])))
        << values[i];
  }
}

TEST(Bf16, NaNStaysOne) {
  const float quiet = std::numeric_limits<float>::quiet_NaN();
  const float low_bits_only = std::bit_cast<float>(0x7f800001u), negative = -quiet;
  const std::vector<float> values(67, low_bits_only);
  for (const float value : placed::from(values, {67}).to(DType::bf16).to_vector<float>())
    EXPECT_TRUE(std::isnan(value));
  for (const float value : {quiet, low_bits_only, negative})
    EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(value))));
}

TEST(Bf16, OperandsAreRoundedOnceAndOnlyFromF32) {
  const Tensor x = random_tensor<float>({5, 3}, 1);
  EXPECT_EQ(product_operand(x, MatmulPrecision::full).raw(), x.raw());
  const Tensor rounded = product_operand(x, MatmulPrecision::bf16);
  EXPECT_EQ(rounded.dtype(), DType::bf16);
  EXPECT_EQ(product_operand(rounded, MatmulPrecision::bf16).raw(), rounded.raw());
  const Tensor f64 = random_tensor<double>({5, 3}, 1);
  EXPECT_EQ(error_of([&] { product_operand(f64, MatmulPrecision::bf16); }),
            "products in bf16: expected f32 operands, got f64");
}

// ---- matmul

TEST(Bf16Matmul, RaggedShapes) {
  for (const std::int64_t m : {1, 2, 5, 7, 17, 97})
    for (const std::int64_t n : {1, 3, 8, 15, 16, 17, 65})
      for (const std::int64_t k : {1, 2, 7, 16, 31, 257}) {
        const Tensor a = random_bf16({m, k}, 1), b = random_bf16({k, n}, 2);
        const Tensor product = matmul(a, b);
        EXPECT_EQ(product.dtype(), DType::f32);
        expect_product<float>(a, b, product);
      }
}

TEST(Bf16Matmul, LargerThanEveryTile) {
  const Tensor a = random_bf16({515, 11}, 1), b = random_bf16({11, 2051}, 2);
  expect_product<float>(a, b, matmul(a, b));
  const Tensor c = random_bf16({1030, 300}, 3), d = random_bf16({300, 20}, 4);
  expect_product<float>(c, d, matmul(c, d));
}

TEST(Bf16Matmul, LongK) {
  for (const std::int64_t k : {4095, 4096, 4097, 9000}) {
    const Tensor a = random_bf16({k, 19}, 1), b = random_bf16({k, 13}, 2);
    expect_product<float>(a.transpose(0, 1), b, matmul(a.transpose(0, 1), b));
  }
}

// Sums of 2^14 ones, and of what each adds less than half a bf16 unit to: exact in f32 alone.
TEST(Bf16Matmul, SumsInF32) {
  const std::int64_t k = 16384;
  const Tensor ones = placed::ones({1, k}, DType::bf16);
  const Tensor small = placed::full({k, 3}, std::ldexp(1.0, -12), DType::bf16);
  EXPECT_EQ(matmul(ones, ones.transpose(0, 1)).item(), 16384);
  Tensor out = placed::full({1, 3}, 1);
  tested.matmul->matmul(ones, small, true, out);
  EXPECT_EQ(out.to_vector<float>(), std::vector<float>(3, 5));
}

TEST(Bf16Matmul, EveryStridePattern) {
  const std::int64_t m = 9, n = 18, k = 21;
  for (const Tensor& a : matrix_views(m, k, 10, DType::bf16))
    for (const Tensor& b : matrix_views(k, n, 20, DType::bf16))
      expect_product<float>(a, b, matmul(a, b));
}

TEST(Bf16Matmul, Batches) {
  const Tensor a = random_bf16({3, 2, 7, 5}, 1), b = random_bf16({3, 2, 5, 6}, 2);
  expect_product<float>(a, b, matmul(a, b));
  const Tensor shared = random_bf16({5, 6}, 3);
  expect_product<float>(a, shared.expand({3, 2, 5, 6}), matmul(a, shared));
}

TEST(Bf16Matmul, Accumulates) {
  for (const std::int64_t k : {5, 300, 5000}) {
    const Tensor a = random_bf16({6, k}, 1), b = random_bf16({k, 9}, 2);
    Tensor out = placed::full({6, 9}, 3);
    matmul_add(out, a, b);
    expect_product<float>(a, b, out, 3);
  }
}

TEST(Bf16Matmul, OverwritesWhateverWasThere) {
  for (const std::int64_t k : {3, 5000}) {
    const Tensor a = random_bf16({6, k}, 1), b = random_bf16({k, 9}, 2);
    const Tensor out = placed::full({6, 9}, std::numeric_limits<double>::quiet_NaN());
    tested.matmul->matmul(a, b, false, out);
    expect_product<float>(a, b, out);
  }
}

TEST(Bf16Matmul, EmptyOperands) {
  const DType type = DType::bf16;
  EXPECT_EQ(matmul(placed::empty({0, 3}, type), placed::empty({3, 4}, type)).numel(), 0);
  EXPECT_EQ(matmul(placed::empty({2, 3, 4}, type), placed::empty({2, 4, 0}, type)).numel(), 0);
  const Tensor no_k = matmul(placed::empty({2, 0}, type), placed::empty({0, 3}, type));
  EXPECT_EQ(no_k.to_vector<float>(), std::vector<float>(6, 0));
  Tensor kept = placed::ones({2, 3});
  matmul_add(kept, placed::empty({2, 0}, type), placed::empty({0, 3}, type));
  EXPECT_EQ(kept.to_vector<float>(), std::vector<float>(6, 1));
}

TEST(Bf16Matmul, CarriesWhatIsNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Tensor a = placed::ones({3, 40}, DType::bf16), b = placed::ones({40, 50}, DType::bf16);
  a.slice(0, 1, 2).slice(1, 39, 40).copy_from(placed::full({1, 1}, kInfinity));
  a.slice(0, 2, 3).slice(1, 7, 8).copy_from(placed::full({1, 1}, nan));
  const std::vector<float> got = matmul(a, b).to_vector<float>();
  for (std::size_t j = 0; j < 50; ++j) {
    EXPECT_EQ(got[j], 40);
    EXPECT_EQ(got[50 + j], kInfinity);
    EXPECT_TRUE(std::isnan(got[100 + j]));
  }
}

TEST(Bf16Matmul, SameBitsForEveryThreadCount) {
  const auto check = [](const Tensor& a, const Tensor& b) {
    expect_same_for_every_thread_count<float>([&] { return matmul(a, b); });
  };
  check(random_bf16({1100, 40}, 1), random_bf16({40, 70}, 2));        // tiles of rows
  check(random_bf16({40, 9000}, 3), random_bf16({9000, 30}, 4));      // pieces of k
  check(random_bf16({24, 50, 30}, 5), random_bf16({24, 30, 20}, 6));  // a batch
  check(random_bf16({200, 300}, 7), random_bf16({300, 100}, 8));      // a single tile
  check(random_bf16({2048, 300}, 9).transpose(0, 1), random_bf16({2048, 200}, 10));
}

TEST(Bf16Matmul, IgnoresTheThreadsThatOpenMPWouldUse) {
  testing::expect_same_for_every_openmp_thread_count(random_bf16({1, 3000}, 1),
                                                     random_bf16({3000, 48}, 2));
}

TEST(Bf16Matmul, RefusesOtherTypesBesideIt) {
  const Tensor a = random_bf16({2, 3}, 1), b = random_tensor<float>({3, 2}, 2);
  EXPECT_THROW(matmul(a, b), ShapeError);
  EXPECT_THROW(linear(a, random_tensor<float>({4, 3}, 3)), ShapeError);
  EXPECT_THROW(linear(a, random_bf16({4, 3}, 3), random_bf16({4}, 4)), ShapeError);
  Tensor out = placed::zeros({2, 2}, DType::bf16);
  EXPECT_THROW(matmul_add(out, a, b.to(DType::bf16)), ShapeError);
}

// ---- linear

TEST(Bf16Linear, ProductAndBias) {
  for (const std::int64_t rows : {1, 7, 33, 700})
    for (const std::int64_t n : {1, 9, 16, 31}) {
      const Tensor x = random_bf16({rows, 13}, 1), w = random_bf16({n, 13}, 2);
      expect_product<float>(x, w.transpose(0, 1), linear(x, w));
      const Tensor bias = random_tensor<float>({n}, 3);  // f32, and not rounded
      EXPECT_EQ(linear(x, w, bias).to_vector<float>(), add(linear(x, w), bias).to_vector<float>());
    }
}

TEST(Bf16Linear, ActivationEqualsTheElementwiseFunction) {
  const std::vector<std::pair<Activation, UnaryOp>> pairs{
      {Activation::relu, UnaryOp::relu},
      {Activation::silu, UnaryOp::silu},
      {Activation::gelu, UnaryOp::gelu},
      {Activation::gelu_tanh, UnaryOp::gelu_tanh}};
  const Tensor x = random_bf16({3, 211, 17}, 1), w = random_bf16({19, 17}, 2);
  const Tensor bias = random_tensor<float>({19}, 3);
  for (const auto& [activation, op] : pairs) {
    const LinearActivation both = linear_activation(x, w, bias, activation);
    EXPECT_EQ(both.pre.to_vector<float>(), linear(x, w, bias).to_vector<float>());
    EXPECT_EQ(both.out.to_vector<float>(), unary({op}, both.pre).to_vector<float>());
  }
}

TEST(Bf16Linear, EmptyOperands) {
  const DType type = DType::bf16;
  EXPECT_EQ(linear(placed::empty({0, 3}, type), placed::empty({4, 3}, type)).numel(), 0);
  const Tensor bias = random_tensor<float>({4}, 1);
  const Tensor only_bias = linear(placed::empty({1, 0}, type), placed::empty({4, 0}, type), bias);
  EXPECT_EQ(only_bias.to_vector<float>(), bias.to_vector<float>());
}

TEST(Bf16Linear, SameBitsForEveryThreadCount) {
  const Tensor x = random_bf16({1300, 24}, 1), w = random_bf16({40, 24}, 2);
  const Tensor bias = random_tensor<float>({40}, 3);
  expect_same_for_every_thread_count<float>(
      [&] { return linear_activation(x, w, bias, Activation::gelu).out; });
}

// ---- the instruction set

TEST(Bf16Products, AreForTheProcessorsThatHaveThem) {
  const Backend& backend = backend_for(testing::device());  // it chooses the instruction set
  EXPECT_EQ(backend.has_bf16_products, isa_has_bf16_products());
  EXPECT_FALSE(isa_name() == "AVX2" && isa_has_bf16_products());
}

}  // namespace
}  // namespace mobius::bf16_product_test
