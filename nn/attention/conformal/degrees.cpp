#include "nn/attention/conformal/degrees.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace mobius {

namespace {

// Beyond, a share is lost in the rounding of the sum.
constexpr double least_share = 1e-18;
// The energies of a kernel whose query is this near to the sphere are not summed to the end.
constexpr std::int64_t most_degrees = 100000;

double lambda_of(const ConformalKernel& kernel) { return static_cast<double>(kernel.d - 2) / 2; }

// F_l / F_0 is 1 for newton, where F_l is a series of one term, and for poisson, where F_l does not
// depend on l.
bool has_equal_series(const ConformalKernel& kernel) {
  return kernel.s == lambda_of(kernel) || kernel.s == lambda_of(kernel) + 1;
}

// log (a)_l.
double log_rising(double a, double l) { return std::lgamma(a + l) - std::lgamma(a); }

Variable log_series(const ConformalKernel& kernel, const Variable& r_squared, double l) {
  const double lambda = lambda_of(kernel);
  return log_hyp2f1(kernel.s + l, kernel.s - lambda, l + lambda + 1, r_squared);
}

double log_series_ratio(const ConformalKernel& kernel, double r, double l) {
  if (has_equal_series(kernel)) return 0;
  const Variable r_squared(Tensor::full({1}, r * r, DType::f64));
  return log_series(kernel, r_squared, l).data().item() -
         log_series(kernel, r_squared, 0).data().item();
}

struct Degree {
  double eigenvalue;
  double n_harmonics;  // may be infinite
  double energy;       // eigenvalue^2 n_harmonics
};

// log N_l for l >= 1: N_l = (2l + d - 2) / (d - 2) binomial(l + d - 3, l), and 2 in the plane.
double log_harmonics(std::int64_t d, std::int64_t l) {
  if (d == 2) return std::log(2.0);
  const auto dim = static_cast<double>(d), degree = static_cast<double>(l);
  return std::log((2 * degree + dim - 2) / (dim - 2)) + log_rising(dim - 2, degree) -
         std::lgamma(degree + 1);
}

Degree degree_of(const ConformalKernel& kernel, double r, std::int64_t l) {
  const double eigenvalue = degree_eigenvalue(kernel, r, l);
  const double log_n = l == 0 ? 0 : log_harmonics(kernel.d, l);
  return {eigenvalue, harmonics_of_degree(kernel.d, l),
          eigenvalue == 0 ? 0 : std::exp(2 * std::log(eigenvalue) + log_n)};
}

// Returns the degrees from 0 on, up to those that no longer count.
std::vector<Degree> degrees_of(const ConformalKernel& kernel, double r) {
  std::vector<Degree> degrees;
  double total = 0, before = 0;
  for (std::int64_t l = 0; l < most_degrees; ++l) {
    degrees.push_back(degree_of(kernel, r, l));
    const double energy = degrees.back().energy;
    total += energy;
    if (energy < least_share * total && energy <= before) break;
    before = energy;
  }
  return degrees;
}

double total_energy(const std::vector<Degree>& degrees) {
  return std::accumulate(degrees.rbegin(), degrees.rend(), 0.0,
                         [](double sum, const Degree& degree) { return sum + degree.energy; });
}

void require_arguments(double r, std::int64_t l) {
  if (!(r >= 0 && r < 1) || l < 0)
    throw Error("conformal: expected a radius in [0, 1) and a degree of at least 0, got {} and {}",
                r, l);
}

}  // namespace

double degree_eigenvalue(const ConformalKernel& kernel, double r, std::int64_t l) {
  require_arguments(r, l);
  if (l == 0) return 1;
  if (r == 0) return 0;
  const auto degree = static_cast<double>(l);
  return std::exp(log_rising(kernel.s, degree) - log_rising(lambda_of(kernel) + 1, degree) +
                  degree * std::log(r) + log_series_ratio(kernel, r, degree));
}

Variable degree_eigenvalue(const ConformalKernel& kernel, const Variable& r, std::int64_t l) {
  require_arguments(0, l);
  const auto degree = static_cast<double>(l);
  const double factor =
      std::exp(log_rising(kernel.s, degree) - log_rising(lambda_of(kernel) + 1, degree));
  const Variable power_of_r = l == 1 ? r : power(r, degree);
  if (has_equal_series(kernel)) return scale(power_of_r, factor);
  const Variable r_squared = square(r);
  const Variable ratio = log_series(kernel, r_squared, degree) - log_series(kernel, r_squared, 0);
  return scale(power_of_r, factor) * exp(ratio);
}

double harmonics_of_degree(std::int64_t d, std::int64_t l) {
  if (d < 2 || l < 0)
    throw Error("harmonics: expected a dimension of at least 2 and a degree of at least 0, got {}",
                to_string({d, l}));
  return l == 0 ? 1 : std::round(std::exp(log_harmonics(d, l)));
}

std::vector<double> degree_shares(const ConformalKernel& kernel, double r, std::int64_t n_degrees) {
  const std::vector<Degree> degrees = degrees_of(kernel, r);
  const double total = total_energy(degrees);
  std::vector<double> shares(static_cast<std::size_t>(n_degrees));
  for (std::size_t l = 0; l < std::min(shares.size(), degrees.size()); ++l)
    shares[l] = degrees[l].energy / total;
  return shares;
}

double least_error(const ConformalKernel& kernel, double r, std::int64_t m) {
  std::vector<Degree> degrees = degrees_of(kernel, r);
  const double total = total_energy(degrees);
  std::ranges::sort(degrees, std::greater<>{}, &Degree::eigenvalue);
  auto left = static_cast<double>(m);
  for (Degree& degree : degrees) {
    const double kept = std::min(left, degree.n_harmonics);
    degree.energy *= 1 - kept / degree.n_harmonics;
    left -= kept;
  }
  return std::sqrt(total_energy(degrees) / total);
}

}  // namespace mobius
