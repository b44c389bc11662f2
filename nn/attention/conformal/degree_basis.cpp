#include "nn/attention/conformal/degree_basis.h"

#include "core/error.h"
#include "nn/attention/conformal/degrees.h"

namespace mobius {

namespace {

Variable ones_beside(const Variable& x) {
  Shape shape = x.shape();
  shape.back() = 1;
  return Variable(Tensor::ones(shape, x.dtype(), x.device()));
}

}  // namespace

Variable pair_products(const Variable& x, double off_diagonal) {
  const std::int64_t d = x.size(-1);
  std::vector<Variable> rows;
  for (std::int64_t a = 0; a < d; ++a) {
    const Variable one = slice(x, -1, a, a + 1);
    rows.push_back(square(one));
    if (a + 1 < d) rows.push_back(scale(one, off_diagonal) * slice(x, -1, a + 1, d));
  }
  return concat(rows, -1);
}

DegreeBasis::DegreeBasis(const ConformalKernel& kernel, std::int64_t degree)
    : kernel_(kernel), degree_(degree) {
  if (degree < 0 || degree > 2)
    throw Error("degree basis: expected a degree of 0, 1 or 2, got {}", degree);
}

std::int64_t DegreeBasis::n_features() const {
  const std::int64_t d = kernel_.d;
  return 1 + (degree_ >= 1 ? d : 0) + (degree_ == 2 ? d * (d + 1) / 2 : 0);
}

Variable DegreeBasis::query_features(const BallPoints& points) const {
  const auto d = static_cast<double>(kernel_.d);
  std::vector<Variable> features{ones_beside(points.qhat)};
  if (degree_ >= 1)
    features.push_back(points.qhat * scale(degree_eigenvalue(kernel_, points.radius.r, 1), d));
  if (degree_ == 2) {
    const Variable quadrupole = scale(degree_eigenvalue(kernel_, points.radius.r, 2), (d + 2) / 2);
    features[0] = features[0] - quadrupole;
    features.push_back(pair_products(points.qhat, /*off_diagonal=*/2) * scale(quadrupole, d));
  }
  return concat(features, -1);
}

Variable DegreeBasis::key_features(const Variable& zeta) const {
  std::vector<Variable> features{ones_beside(zeta)};
  if (degree_ >= 1) features.push_back(zeta);
  if (degree_ == 2) features.push_back(pair_products(zeta, /*off_diagonal=*/1));
  return concat(features, -1);
}

}  // namespace mobius
