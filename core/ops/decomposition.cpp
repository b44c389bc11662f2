#include "core/ops/decomposition.h"

#include <algorithm>

#include "core/ops/checks.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"

namespace mobius {
namespace {

// A dense f64 copy of the matrices, [B, M, N].
Tensor matrices(std::string_view op, const Tensor& x) {
  require_real(op, x);
  if (x.ndim() < 2)
    throw ShapeError("{}: expected matrices, got shape {}", op, to_string(x.shape()));
  std::int64_t batch = 1;
  for (int dim = 0; dim < x.ndim() - 2; ++dim) batch *= x.size(dim);
  Tensor copy = Tensor::empty(x.shape(), DType::f64, x.device());
  copy.copy_from(x.to(DType::f64));
  return copy.reshape({batch, x.size(-2), x.size(-1)});
}

Tensor square_matrices(std::string_view op, const Tensor& x) {
  Tensor copy = matrices(op, x);
  if (x.size(-1) != x.size(-2))
    throw ShapeError("{}: expected square matrices, got {}", op, to_string(x.shape()));
  return copy;
}

// [M, M]: 1 below the diagonal, 1/2 on it, 0 above.
Tensor lower_half(std::int64_t m, Device device) {
  std::vector<double> values(static_cast<std::size_t>(m * m));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j <= i; ++j)
      values[static_cast<std::size_t>(i * m + j)] = i == j ? 0.5 : 1;
  return Tensor::from(values, {m, m}, device);
}

}  // namespace

Tensor inverse_cholesky(const Tensor& a) {
  const Tensor w = square_matrices("inverse_cholesky", a);
  kernels(w, &Backend::decomposition)->inverse_cholesky(w);
  return w.reshape(a.shape()).to(a.dtype());
}

// A small dA moves W by dW = -P W, where P is the lower triangle of W dA W^T with half its diagonal
// (because the symmetric W dA W^T is P + P^T). So with C = grad_w W^T, cut to its lower triangle
// and half its diagonal, the gradient of A is -W^T C W.
Tensor inverse_cholesky_backward(const Tensor& w, const Tensor& grad_w) {
  constexpr std::string_view op = "inverse_cholesky_backward";
  const Tensor wide_w = square_matrices(op, w);
  require_like(op, "grad_w", grad_w, w, w.shape());
  const Tensor w_t = wide_w.transpose(-1, -2);
  const Tensor c = mul(matmul(matrices(op, grad_w), w_t), lower_half(w.size(-1), w.device()));
  const Tensor grad = matmul(matmul(w_t, c), wide_w);
  return affine(add(grad, grad.transpose(-1, -2)), -0.5, 0).reshape(w.shape()).to(w.dtype());
}

Tensor singular_values(const Tensor& x) {
  const Tensor copy = matrices("singular_values", x);
  Shape shape = x.shape();
  shape.pop_back();
  shape.back() = std::min(x.size(-2), x.size(-1));
  const Tensor values = Tensor::empty(shape, DType::f64, x.device());
  kernels(x, &Backend::decomposition)
      ->singular_values(copy, values.reshape({copy.size(0), shape.back()}));
  return values.to(x.dtype());
}

SymmetricEigen symmetric_eigen(const Tensor& a) {
  const Tensor rows = square_matrices("symmetric_eigen", a);
  const Tensor values = Tensor::empty({rows.size(0), rows.size(1)}, DType::f64, a.device());
  kernels(a, &Backend::decomposition)->symmetric_eigen(rows, values);
  Shape shape = a.shape();
  const Tensor vectors = rows.transpose(-1, -2).contiguous().reshape(shape).to(a.dtype());
  shape.pop_back();
  return {values.reshape(shape).to(a.dtype()), vectors};
}

}  // namespace mobius
