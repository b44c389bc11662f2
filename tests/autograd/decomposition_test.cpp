// Decompositions against their definitions, and the gradient of inverse_cholesky() against
// differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/autograd/gradcheck.h"
#include "tests/core/ops/kernel_testing.h"
#include "tests/error_of.h"

namespace mobius::decomposition_test {
namespace {

Tensor randn(Shape shape, std::uint64_t stream, DType dtype = DType::f64) {
  return placed::random_normal(std::move(shape), 0, 1, {21, stream}, DType::f64).to(dtype);
}

Tensor identity(std::int64_t m) {
  std::vector<double> values(static_cast<std::size_t>(m * m));
  for (std::int64_t i = 0; i < m; ++i) values[static_cast<std::size_t>(i * (m + 1))] = 1;
  return placed::from(values, {m, m});
}

// x x^T + I / 10, positive definite.
Tensor positive_definite(const Shape& batch, std::int64_t m, std::uint64_t stream) {
  Shape shape = batch;
  shape.push_back(m);
  shape.push_back(m);
  const Tensor x = randn(shape, stream);
  return add(matmul(x, x.transpose(-1, -2)), affine(identity(m), 0.1, 0));
}

double distance(const Tensor& a, const Tensor& b) {
  return std::sqrt(sum_of_squares(sub(a, b).contiguous()));
}

TEST(InverseCholesky, WhitensItsMatrix) {
  for (const std::int64_t m : {1, 2, 5, 33}) {
    const Tensor a = positive_definite({2, 3}, m, 1), w = inverse_cholesky(a);
    ASSERT_EQ(w.shape(), a.shape());
    const Tensor whitened = matmul(matmul(w, a), w.transpose(-1, -2));
    EXPECT_LT(distance(whitened, identity(m).expand(a.shape())), 1e-10) << m;
    const std::vector<double> values = w.to_vector<double>();
    for (std::int64_t i = 0; i < w.numel(); ++i) {
      if (i % m <= i / m % m) continue;
      EXPECT_EQ(values[static_cast<std::size_t>(i)], 0) << "above the diagonal";
    }
  }
}

TEST(InverseCholesky, ReadsTheLowerTriangleOfAStridedMatrix) {
  const Tensor a = positive_definite({}, 4, 2);
  Tensor damaged = a.clone();
  damaged.slice(0, 0, 1).slice(1, 1, 4).fill(77);
  EXPECT_LT(distance(inverse_cholesky(damaged), inverse_cholesky(a)), 1e-14);
  EXPECT_LT(distance(inverse_cholesky(a.transpose(0, 1)), inverse_cholesky(a)), 1e-13);
}

TEST(InverseCholesky, ComputesInDoubleForF32) {
  const Tensor a = positive_definite({}, 24, 3).to(DType::f32);
  const Tensor w = inverse_cholesky(a);
  EXPECT_EQ(w.dtype(), DType::f32);
  EXPECT_EQ(w.to_vector<float>(),
            inverse_cholesky(a.to(DType::f64)).to(DType::f32).to_vector<float>());
}

TEST(InverseCholesky, GradientAgreesWithDifferences) {
  for (const std::int64_t m : {1, 2, 4}) {
    // The difference quotient moves both triangles.
    EXPECT_EQ(gradcheck(
                  [](const std::vector<Variable>& x) {
                    return inverse_cholesky(scale(x[0] + transpose(x[0], -1, -2), 0.5));
                  },
                  {positive_definite({2}, m, 4)}),
              "")
        << m;
  }
}

TEST(InverseCholesky, OfNothingIsNothing) {
  EXPECT_EQ(inverse_cholesky(placed::zeros({0, 3, 3}, DType::f64)).shape(), (Shape{0, 3, 3}));
  EXPECT_EQ(inverse_cholesky(placed::zeros({2, 0, 0}, DType::f64)).shape(), (Shape{2, 0, 0}));
}

// Matrix 1 of a[3, M, M] has no inverse_cholesky(): the error says so, or, on a CUDA device, its W
// is NaN and the others are as if they were alone.
void expect_refused(const Tensor& a, const std::string& error) {
  if (testing::device().type != DeviceType::cuda) {
    EXPECT_EQ(error_of([&] { inverse_cholesky(a); }), error);
    return;
  }
  const Tensor w = inverse_cholesky(a);
  for (const double value : w.slice(0, 1, 2).to_vector<double>()) EXPECT_TRUE(std::isnan(value));
  for (const std::int64_t i : {0, 2}) {
    EXPECT_EQ(w.slice(0, i, i + 1).to_vector<double>(),
              inverse_cholesky(a.slice(0, i, i + 1)).to_vector<double>());
  }
}

TEST(InverseCholesky, RefusesAMatrixThatIsNotPositiveDefinite) {
  Tensor a = positive_definite({3}, 4, 5);
  a.slice(0, 1, 2).slice(1, 2, 3).fill(0);
  expect_refused(a,
                 "inverse_cholesky: matrix 1 of 3 is not positive definite: its leading 3 rows and "
                 "columns are not; a larger ridge, a number added to the diagonal, makes it so");
  a.slice(0, 1, 2).fill(std::nan(""));
  expect_refused(a, "inverse_cholesky: matrix 1 of 3 is not finite");
  EXPECT_EQ(error_of([&] {
              inverse_cholesky(placed::zeros({2, 3, 4}));
            }),
            "inverse_cholesky: expected square matrices, got [2, 3, 4]");
  EXPECT_EQ(error_of([&] { inverse_cholesky(placed::zeros({3})); }),
            "inverse_cholesky: expected matrices, got shape [3]");
}

TEST(SingularValues, HaveTheSizeAndTheProductsOfTheMatrix) {
  for (const auto& [rows, cols] :
       {std::pair{5, 3}, std::pair{3, 5}, std::pair{4, 4}, std::pair{1, 1}, std::pair{33, 40}}) {
    const Tensor x = randn({2, rows, cols}, 6);
    const Tensor values = singular_values(x);
    ASSERT_EQ(values.shape(), (Shape{2, std::min(rows, cols)}));
    EXPECT_NEAR(sum_of_squares(values), sum_of_squares(x), 1e-14 * sum_of_squares(x) + 1e-12);
    const std::vector<double> of = values.to_vector<double>();
    const auto n = static_cast<std::size_t>(values.size(1));
    for (std::size_t i = 1; i < of.size(); ++i) {
      if (i % n == 0) continue;
      EXPECT_GE(of[i - 1], of[i]) << "descending";
    }
  }
  // An orthogonal matrix times a diagonal one.
  const Tensor rotation = placed::from(std::vector<double>{0.6, -0.8, 0.8, 0.6}, {2, 2});
  const Tensor stretched = mul(rotation, placed::from(std::vector<double>{2, 7}, {1, 2}));
  const std::vector<double> of = singular_values(stretched).to_vector<double>();
  EXPECT_NEAR(of[0], 7, 1e-14);
  EXPECT_NEAR(of[1], 2, 1e-14);
  EXPECT_EQ(error_of([] {
              singular_values(placed::full({2, 2, 2}, std::nan("")));
            }),
            "singular_values: matrix 0 of 2 is not finite");
}

TEST(SingularValues, OfAMatrixThatLacksRank) {
  // The product of [30, 4] and [4, 20], far from 1; and nothing at all.
  const Tensor x = affine(matmul(randn({30, 4}, 8), randn({4, 20}, 9)), 1e200, 0);
  const std::vector<double> of = singular_values(x).to_vector<double>();
  const std::vector<double> squares =
      symmetric_eigen(matmul(affine(x, 1e-200, 0).transpose(0, 1), affine(x, 1e-200, 0)))
          .values.to_vector<double>();
  for (std::size_t i = 0; i < of.size(); ++i) {
    const double want = i < 4 ? std::sqrt(squares[19 - i]) : 0;
    EXPECT_NEAR(of[i] * 1e-200, want, 1e-12) << i;
  }
  EXPECT_EQ(singular_values(placed::zeros({3, 2}, DType::f64)).to_vector<double>(),
            (std::vector<double>{0, 0}));
}

// a[2, M, M]
void expect_rebuilt(const Tensor& a) {
  const std::int64_t m = a.size(-1);
  const double rounding = 1e-13 * std::max(1.0, static_cast<double>(m) / 8);
  const auto [values, vectors] = symmetric_eigen(a);
  ASSERT_EQ(values.shape(), (Shape{2, m}));
  const Tensor stretched = mul(vectors, values.reshape({2, 1, m}));
  EXPECT_LT(distance(matmul(stretched, vectors.transpose(-1, -2)), a), 10 * rounding) << m;
  EXPECT_LT(distance(matmul(vectors.transpose(-1, -2), vectors), identity(m).expand(a.shape())),
            rounding)
      << m;
  const std::vector<double> of = values.to_vector<double>();
  for (std::size_t i = 1; i < of.size(); ++i) {
    if (i % static_cast<std::size_t>(m) == 0) continue;
    EXPECT_LE(of[i - 1], of[i]) << "ascending";
  }
}

TEST(SymmetricEigen, RebuildsTheMatrix) {
  for (const std::int64_t m : {1, 2, 7, 40}) {
    const Tensor x = randn({2, m, m}, 7);
    expect_rebuilt(add(x, x.transpose(-1, -2)));
  }
}

TEST(SymmetricEigen, OfEqualValues) {
  const Tensor x = randn({2, 9, 3}, 8);
  expect_rebuilt(matmul(x, x.transpose(-1, -2)));  // six times 0
  expect_rebuilt(affine(identity(5), -3, 0).expand({2, 5, 5}).contiguous());
  expect_rebuilt(placed::zeros({2, 4, 4}, DType::f64));
}

TEST(SymmetricEigen, NamesTheMatrixThatIsNotFinite) {
  Tensor a = placed::zeros({2, 3, 3}, DType::f64);
  a.slice(0, 1, 2).fill(std::nan(""));
  EXPECT_EQ(error_of([&] { symmetric_eigen(a); }), "symmetric_eigen: matrix 1 of 2 is not finite");
}

}  // namespace
}  // namespace mobius::decomposition_test
