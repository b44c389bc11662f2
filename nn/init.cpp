#include "nn/init.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "core/ops.h"
#include "core/parallel.h"

namespace mobius {

namespace {

double dot(std::span<const double> a, std::span<const double> b) {
  return std::transform_reduce(a.begin(), a.end(), b.begin(), 0.0);
}

// Makes the rows of a matrix [n, length], n <= length, orthonormal by modified Gram-Schmidt.
void orthonormalize(std::vector<double>& matrix, std::size_t n, std::size_t length) {
  const auto row = [&](std::size_t i) { return std::span(matrix).subspan(i * length, length); };
  for (std::size_t i = 0; i < n; ++i) {
    const std::span<double> pivot = row(i);
    const double inverse_norm = 1 / std::sqrt(dot(pivot, pivot));
    for (double& value : pivot) value *= inverse_norm;
    const auto project = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = begin; j < end; ++j) {
        const std::span<double> other = row(i + 1 + static_cast<std::size_t>(j));
        const double overlap = dot(pivot, other);
        for (std::size_t t = 0; t < length; ++t) other[t] -= overlap * pivot[t];
      }
    };
    parallel_for(static_cast<std::int64_t>(n - i - 1), 16, project);
  }
}

}  // namespace

double inverse_softplus(double y) { return y + std::log(-std::expm1(-y)); }

Tensor random_orthogonal(std::int64_t rows, std::int64_t cols, RngKey key, DType dtype,
                         Device device) {
  const std::int64_t n = std::min(rows, cols), length = std::max(rows, cols);
  std::vector<double> matrix(static_cast<std::size_t>(n * length));
  Rng rng(key);
  for (double& value : matrix) value = rng.normal();
  // A second pass removes the rounding errors of the first.
  for (int pass = 0; pass < 2; ++pass)
    orthonormalize(matrix, static_cast<std::size_t>(n), static_cast<std::size_t>(length));
  const Tensor orthonormal_rows = Tensor::from(matrix, {n, length}, device).to(dtype);
  return rows <= cols ? orthonormal_rows : orthonormal_rows.transpose(0, 1).contiguous();
}

Initializer::Initializer(std::uint64_t seed, double std, bool orthogonal, DType dtype,
                         Device device, MatmulPrecision products)
    : seed_(seed),
      std_(std),
      orthogonal_(orthogonal),
      dtype_(dtype),
      device_(device),
      products_(products) {}

Initializer Initializer::without_values() {
  Initializer blank(0, 1, false, DType::f32, {});
  blank.has_values_ = false;
  return blank;
}

Initializer Initializer::at(const std::string& part) const {
  Initializer below = *this;
  below.path_ = path_.empty() ? part : path_ + "." + part;
  return below;
}

RngKey Initializer::key(const std::string& name) const {
  return {seed_, stream_id("init:" + at(name).path_)};
}

Tensor Initializer::matrix(const std::string& name, std::int64_t rows, std::int64_t cols,
                           double gain) const {
  if (!has_values_) return zeros({rows, cols});
  if (orthogonal_) return random_orthogonal(rows, cols, key(name), dtype_, device_);
  return random_normal({rows, cols}, 0, std_ * gain, key(name), dtype_, device_);
}

Tensor Initializer::stacked(const std::string& name, const std::vector<std::int64_t>& rows,
                            std::int64_t cols, double gain) const {
  if (!orthogonal_)
    return matrix(name, std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), cols, gain);
  std::vector<Tensor> parts;
  for (std::size_t part = 0; part < rows.size(); ++part)
    parts.push_back(matrix(name + "." + std::to_string(part), rows[part], cols));
  return concat(parts, 0);
}

Tensor Initializer::full(Shape shape, double value) const {
  if (!has_values_) return Tensor::full({}, value, dtype_, device_).expand(shape);
  return Tensor::full(std::move(shape), value, dtype_, device_);
}

}  // namespace mobius
