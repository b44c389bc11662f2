// Decompositions by LAPACK, one matrix after the other of a batch, in parallel. LAPACK stores
// matrices by columns: what it calls the upper triangle of a matrix is the lower one here, where
// its transposed lies in the same memory.

#include "core/ops/decomposition.h"

#include <lapacke.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/cpu/kernels.h"
#include "core/error.h"
#include "core/parallel.h"

namespace mobius {

namespace {

lapack_int as_lapack_size(std::int64_t n) {
  if (n > std::numeric_limits<lapack_int>::max())
    throw Error("decomposition: a matrix of {} rows is too large", n);
  return static_cast<lapack_int>(n);
}

// Calls decompose(i) -> LAPACK's info for every matrix of the batch, then explain(i, info) for the
// first that failed, whatever the number of threads. LAPACKE itself looks for NaN.
template <class Decompose, class Explain>
void for_each_matrix(std::int64_t batch, const Decompose& decompose, const Explain& explain) {
  std::vector<lapack_int> infos(static_cast<std::size_t>(batch));
  parallel_for_each(batch, 1,
                    [&](std::int64_t i) { infos[static_cast<std::size_t>(i)] = decompose(i); });
  for (std::int64_t i = 0; i < batch; ++i)
    if (const lapack_int info = infos[static_cast<std::size_t>(i)]; info != 0) explain(i, info);
}

lapack_int inverse_cholesky_of(double* a, lapack_int m) {
  if (const lapack_int info = LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'U', m, a, m)) return info;
  const std::int64_t n = m;
  for (std::int64_t i = 0; i < n; ++i) std::fill(a + i * n + i + 1, a + (i + 1) * n, 0.0);
  return LAPACKE_dtrtri(LAPACK_COL_MAJOR, 'U', 'N', m, a, m);
}

class CpuDecomposition final : public DecompositionKernels {
 public:
  void inverse_cholesky(const Tensor& w) override {
    if (w.numel() == 0) return;
    const lapack_int m = as_lapack_size(w.size(1));
    for_each_matrix(
        w.size(0),
        [&](std::int64_t i) { return inverse_cholesky_of(w.data<double>() + i * m * m, m); },
        [&](std::int64_t i, lapack_int info) {
          if (info < 0)
            throw Error("inverse_cholesky: matrix {} of {} is not finite", i, w.size(0));
          throw Error(
              "inverse_cholesky: matrix {} of {} is not positive definite: its leading {} rows and "
              "columns are not; a larger ridge, a number added to the diagonal, makes it so",
              i, w.size(0), info);
        });
  }

  void singular_values(const Tensor& x, const Tensor& values) override {
    if (x.numel() == 0) return;
    const lapack_int rows = as_lapack_size(x.size(1)), cols = as_lapack_size(x.size(2));
    for_each_matrix(
        x.size(0),
        [&](std::int64_t i) {
          // The transposed matrix has the same singular values.
          return LAPACKE_dgesdd(
              LAPACK_COL_MAJOR, 'N', cols, rows, x.data<double>() + i * x.size(1) * x.size(2), cols,
              values.data<double>() + i * values.size(1), nullptr, cols, nullptr, rows);
        },
        [&](std::int64_t i, lapack_int info) { refuse("singular_values", i, x.size(0), info); });
  }

  void symmetric_eigen(const Tensor& rows, const Tensor& values) override {
    if (rows.numel() == 0) return;
    const lapack_int m = as_lapack_size(rows.size(1));
    for_each_matrix(
        rows.size(0),
        [&](std::int64_t i) {
          return LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'V', 'U', m, rows.data<double>() + i * m * m, m,
                                values.data<double>() + i * m);
        },
        [&](std::int64_t i, lapack_int info) { refuse("symmetric_eigen", i, rows.size(0), info); });
  }

 private:
  [[noreturn]] static void refuse(std::string_view op, std::int64_t i, std::int64_t batch,
                                  lapack_int info) {
    if (info < 0) throw Error("{}: matrix {} of {} is not finite", op, i, batch);
    throw Error("{}: the iteration for matrix {} of {} did not converge", op, i, batch);
  }
};

}  // namespace

DecompositionKernels& cpu_decomposition_kernels() { return only<CpuDecomposition>(); }

}  // namespace mobius
