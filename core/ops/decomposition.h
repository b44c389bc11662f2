// Decompositions of small matrices. All compute in double, whatever the type of the matrices.
#pragma once

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

/// Returns the lower triangular W[..., M, M] with W A W^T = I, that is W = L^-1 where A = L L^T is
/// Cholesky's decomposition of a[..., M, M], of which only the lower triangles are read. Rows
/// multiplied by W^T have the identity as their Gram matrix where they had A. Throws Error, naming
/// the matrix, if it is not positive definite or not finite; on a CUDA device, for which a step of
/// training would have to wait, such a matrix has a W of NaN instead.
Tensor inverse_cholesky(const Tensor& a);
/// The gradient of `a` as a symmetric matrix.
Tensor inverse_cholesky_backward(const Tensor& w, const Tensor& grad_w);

/// Returns the singular values of x[..., M, N], descending, [..., min(M, N)].
Tensor singular_values(const Tensor& x);

struct SymmetricEigen {
  Tensor values;   // ascending, [..., M]
  Tensor vectors;  // orthonormal columns in the same order, [..., M, M]: a = V diag(values) V^T
};
/// Reads the lower triangles of a[..., M, M].
SymmetricEigen symmetric_eigen(const Tensor& a);

/// All tensors are f64. They throw Error, naming the matrix by its index, if it has no such
/// decomposition, except as inverse_cholesky() says.
class DecompositionKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "decomposition";

  /// w[B, M, M] holds a and is overwritten.
  virtual void inverse_cholesky(const Tensor& w) = 0;
  /// x[B, M, N] is destroyed; values[B, min(M, N)].
  virtual void singular_values(const Tensor& x, const Tensor& values) = 0;
  /// rows[B, M, M] holds a and is overwritten by the eigenvectors, one a row; values[B, M].
  virtual void symmetric_eigen(const Tensor& rows, const Tensor& values) = 0;
};

}  // namespace mobius
