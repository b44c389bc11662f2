// The expansion of the kernel by degrees against integrals over the sphere.
#include "nn/attention/conformal/degrees.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "core/error.h"
#include "tests/autograd/gradcheck.h"
#include "tests/nn/nn_testing.h"

namespace mobius::degrees_test {
namespace {

// The mean over the uniform sphere in d dimensions of a function of u, by the midpoint rule in the
// angle, which converges faster than any power for smooth functions in even dimensions.
double sphere_mean(std::int64_t d, const std::function<double(double)>& f) {
  constexpr int n = 4000;
  double total = 0, weights = 0;
  for (int i = 0; i < n; ++i) {
    const double angle = std::numbers::pi * (i + 0.5) / n;
    const double weight = std::pow(std::sin(angle), static_cast<double>(d - 2));
    total += weight * f(std::cos(angle));
    weights += weight;
  }
  return total / weights;
}

// Z_l(u) / N_l, which is 1 at u = 1.
double zonal(std::int64_t d, std::int64_t l, double u) {
  double before = 1, value = u;
  if (l == 0) return 1;
  for (std::int64_t k = 1; k < l; ++k) {
    const auto degree = static_cast<double>(k), dim = static_cast<double>(d);
    const double next = ((2 * degree + dim - 2) * u * value - degree * before) / (degree + dim - 2);
    before = value;
    value = next;
  }
  return value;
}

double kernel_at(const ConformalKernel& kernel, double r, double u) {
  return std::pow(1 + r * r - 2 * r * u, -kernel.s);
}

std::vector<ConformalKernel> kernels() {
  std::vector<ConformalKernel> all;
  for (const std::int64_t d : {2, 4, 8, 34}) {
    for (const ConformalWeight weight :
         {ConformalWeight::newton, ConformalWeight::poisson, ConformalWeight::jacobian})
      all.push_back(conformal_kernel(weight, d));
    for (const double s : {0.4, 1.7, 12.5})
      all.push_back(conformal_kernel(ConformalWeight::custom, d, s, 0.0));
  }
  return all;
}

std::string words(const ConformalKernel& kernel) {
  return fmt::format("d {} s {}", kernel.d, kernel.s);
}

TEST(Degrees, EigenvaluesAreMeansOverTheSphere) {
  for (const ConformalKernel& kernel : kernels())
    for (const double r : {0.05, 0.3, 0.6}) {
      const double mean = sphere_mean(kernel.d, [&](double u) { return kernel_at(kernel, r, u); });
      for (const std::int64_t l : {0, 1, 2, 5}) {
        const double expected = sphere_mean(kernel.d, [&](double u) {
          return kernel_at(kernel, r, u) / mean * zonal(kernel.d, l, u);
        });
        EXPECT_NEAR(degree_eigenvalue(kernel, r, l), expected, 1e-10)
            << words(kernel) << " r " << r << " l " << l;
      }
    }
}

TEST(Degrees, EnergiesAddUpToTheMeanSquare) {
  for (const ConformalKernel& kernel : kernels())
    for (const double r : {0.05, 0.6}) {
      const double mean = sphere_mean(kernel.d, [&](double u) { return kernel_at(kernel, r, u); });
      const double mean_square = sphere_mean(kernel.d, [&](double u) {
        const double unit_mean = kernel_at(kernel, r, u) / mean;
        return unit_mean * unit_mean;
      });
      // The share of degree 0, whose energy is 1, tells the sum of all.
      EXPECT_NEAR(1 / degree_shares(kernel, r, 1)[0] / mean_square, 1, 1e-9) << words(kernel);
    }
}

TEST(Degrees, CountsHarmonics) {
  for (const std::int64_t l : {1, 2, 7}) {
    EXPECT_EQ(harmonics_of_degree(2, l), 2);
    EXPECT_EQ(harmonics_of_degree(3, l), 2.0 * static_cast<double>(l) + 1);
  }
  EXPECT_EQ(harmonics_of_degree(64, 0), 1);
  EXPECT_EQ(harmonics_of_degree(64, 1), 64);
  EXPECT_EQ(harmonics_of_degree(64, 2), 2079);
}

TEST(Degrees, VariableEigenvaluesEqualTheNumbersAndHaveTheirGradients) {
  for (const ConformalKernel& kernel : kernels())
    for (const std::int64_t l : {1, 2}) {
      const std::vector<double> radii{0.01, 0.2, 0.7};
      const Variable r(placed::from(radii, {3}));
      const std::vector<double> got = degree_eigenvalue(kernel, r, l).data().to_vector<double>();
      for (std::size_t i = 0; i < radii.size(); ++i)
        EXPECT_NEAR(got[i], degree_eigenvalue(kernel, radii[i], l), 1e-11 * got[i])
            << words(kernel);
      EXPECT_EQ(
          gradcheck(
              [&](const std::vector<Variable>& x) { return degree_eigenvalue(kernel, x[0], l); },
              {r.data()}),
          "")
          << words(kernel);
    }
}

TEST(Degrees, LeastErrorKeepsTheLargestEigenvalues) {
  const ConformalKernel kernel = conformal_kernel(ConformalWeight::newton, 64);
  const double r = 0.09;
  const std::vector<double> shares = degree_shares(kernel, r, 3);
  EXPECT_DOUBLE_EQ(least_error(kernel, r, 0), 1);
  EXPECT_NEAR(least_error(kernel, r, 1), std::sqrt(1 - shares[0]), 1e-12);
  EXPECT_NEAR(least_error(kernel, r, 65), std::sqrt(1 - shares[0] - shares[1]), 1e-12);
  EXPECT_NEAR(least_error(kernel, r, 65 + 2079 / 3),
              std::sqrt(1 - shares[0] - shares[1] - shares[2] / 3), 1e-12);
  EXPECT_EQ(least_error(kernel, 0, 1), 0);
}

TEST(Degrees, RefusesWhatHasNoExpansion) {
  const ConformalKernel kernel = conformal_kernel(ConformalWeight::newton, 8);
  EXPECT_THROW(degree_eigenvalue(kernel, 1, 1), Error);
  EXPECT_THROW(degree_eigenvalue(kernel, 0.5, -1), Error);
  EXPECT_THROW(harmonics_of_degree(1, 1), Error);
}

}  // namespace
}  // namespace mobius::degrees_test
