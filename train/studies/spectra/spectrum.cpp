#include "train/studies/spectra/spectrum.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/ops.h"

namespace mobius {

double Spectrum::effective_rank() const {
  double sum = 0, entropy = 0;
  for (const double value : values) sum += value;
  for (const double value : values)
    if (value > 0) entropy -= value / sum * std::log(value / sum);
  return std::exp(entropy);
}

double Spectrum::stable_rank() const {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return squares / (values.front() * values.front());
}

std::int64_t Spectrum::rank(double share) const {
  return std::count_if(values.begin(), values.end(),
                       [&](double value) { return value > share * values.front(); });
}

double Spectrum::rest(std::int64_t m) const {
  double all = 0, left = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    all += values[i] * values[i];
    if (static_cast<std::int64_t>(i) >= m) left += values[i] * values[i];
  }
  return std::sqrt(left / all);
}

Spectrum spectrum_of(const Tensor& matrix) {
  Spectrum spectrum{singular_values(matrix).to_vector<double>()};
  if (!(spectrum.values.front() > 0)) throw Error("spectrum: the matrix is 0");
  return spectrum;
}

Tensor with_rows_of_sum_one(const Tensor& weights) {
  const Tensor sums = sum(weights, {-1}, /*keepdim=*/true);
  const Tensor zero = Tensor::zeros({}, weights.dtype(), weights.device());
  const Tensor one = Tensor::ones({}, weights.dtype(), weights.device());
  return div(weights, where(compare(CompareOp::equal, sums, zero), one, sums));
}

}  // namespace mobius
