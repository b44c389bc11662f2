// The far field of exact low degrees against the kernel.
#include "nn/attention/conformal/degree_basis.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "nn/attention/conformal/degrees.h"
#include "tests/autograd/gradcheck.h"
#include "tests/nn/nn_testing.h"

namespace mobius::degree_basis_test {
namespace {

using testing::normal;

std::vector<ConformalKernel> kernels_of(std::int64_t d) {
  return {conformal_kernel(ConformalWeight::newton, d),
          conformal_kernel(ConformalWeight::poisson, d),
          conformal_kernel(ConformalWeight::jacobian, d),
          conformal_kernel(ConformalWeight::custom, d, 1.7, 0.0)};
}

BallPoints some_points(std::int64_t n_q, std::int64_t n_k, const ConformalKernel& kernel,
                       double alpha) {
  return embed_in_ball(Variable(normal({1, 1, n_q, kernel.d}, 1)),
                       Variable(normal({1, 1, n_k, kernel.d}, 2)),
                       Variable(placed::full({1}, alpha, DType::f64)), kernel.s);
}

Tensor products(const FarField& basis, const BallPoints& points) {
  return matmul(basis.query_features(points), transpose(basis.key_features(points.zeta), -1, -2))
      .data();
}

// K / E[K] of every pair.
Tensor unit_mean_kernel(const BallPoints& points, const ConformalKernel& kernel) {
  const Variable& r = points.radius.r;
  const Variable u = matmul(points.qhat, transpose(points.zeta, -1, -2));
  const Variable distance = affine(square(r), 1, 1) - scale(r * u, 2);
  const Variable kernel_of_unit_peak =
      exp(scale(log(distance) - scale(log(points.radius.one_minus_r), 2), -kernel.s));
  return (kernel_of_unit_peak / exp(log_normalizer(points.radius, kernel))).data();
}

TEST(DegreeBasis, KeepsTheFirstTermsOfTheExpansion) {
  for (const std::int64_t d : {2, 3, 8})
    for (const ConformalKernel& kernel : kernels_of(d)) {
      const BallPoints points = some_points(4, 5, kernel, 2);
      const std::vector<double> u =
          matmul(points.qhat, transpose(points.zeta, -1, -2)).data().to_vector<double>();
      const std::vector<double> radii = points.radius.r.data().to_vector<double>();
      const auto dim = static_cast<double>(d);
      for (const std::int64_t degree : {0, 1, 2}) {
        const DegreeBasis basis(kernel, degree);
        EXPECT_EQ(basis.key_features(points.zeta).size(-1), basis.n_features());
        const std::vector<double> got = products(basis, points).to_vector<double>();
        for (std::size_t i = 0; i < u.size(); ++i) {
          const double r = radii[i / 5];
          double expected = 1;
          if (degree >= 1) expected += degree_eigenvalue(kernel, r, 1) * dim * u[i];
          if (degree == 2)
            expected += degree_eigenvalue(kernel, r, 2) * (dim + 2) / 2 * (dim * u[i] * u[i] - 1);
          EXPECT_NEAR(got[i], expected, 1e-12 * std::abs(expected) + 1e-12) << d << " " << degree;
        }
      }
    }
}

// On uniform keys its mean square error is the least that so many features can have.
TEST(DegreeBasis, ComesAsCloseAsFeaturesCan) {
  const ConformalKernel kernel = conformal_kernel(ConformalWeight::newton, 16);
  Tensor q = placed::full({1, 1, 200, 16}, 0.0, DType::f64);
  q.copy_from(polar(normal({1, 1, 200, 16}, 3)).direction);
  const BallPoints points = embed_in_ball(Variable(q), Variable(normal({1, 1, 3000, 16}, 4)),
                                          Variable(placed::full({1}, 8.0, DType::f64)), kernel.s);
  const double r = points.radius.r.data().slice(2, 0, 1).item();
  const Tensor exact = unit_mean_kernel(points, kernel);
  for (const std::int64_t degree : {0, 1, 2}) {
    const DegreeBasis basis(kernel, degree);
    const double error =
        std::sqrt(sum_of_squares(sub(products(basis, points), exact)) / sum_of_squares(exact));
    EXPECT_NEAR(error / least_error(kernel, r, basis.n_features()), 1, 0.05) << degree;
  }
}

TEST(DegreeBasis, GradientsAgreeWithDifferences) {
  for (const ConformalKernel& kernel : kernels_of(4))
    for (const std::int64_t degree : {1, 2}) {
      const DegreeBasis basis(kernel, degree);
      const auto far_weights = [&](const std::vector<Variable>& x) {
        const BallPoints points = embed_in_ball(x[0], x[1], x[2], kernel.s);
        return matmul(basis.query_features(points),
                      transpose(basis.key_features(points.zeta), -1, -2));
      };
      EXPECT_EQ(gradcheck(far_weights, {normal({1, 1, 3, 4}, 5), normal({1, 1, 2, 4}, 6),
                                        placed::full({1}, 3.0, DType::f64)}),
                "")
          << kernel.s;
    }
}

TEST(DegreeBasis, RefusesOtherDegrees) {
  const ConformalKernel kernel = conformal_kernel(ConformalWeight::newton, 8);
  testing::expect_error<Error>([&] { DegreeBasis(kernel, 3); }, "0, 1 or 2, got 3");
  testing::expect_error<Error>([&] { DegreeBasis(kernel, -1); }, "got -1");
}

}  // namespace
}  // namespace mobius::degree_basis_test
