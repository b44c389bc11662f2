// Decompositions of small matrices in f64, a block a matrix.
//
// Cholesky's method eliminates a row and a column at a time and carries the identity along, which
// becomes the inverse in the place of the columns that are done. Eigenvalues and singular values
// are Jacobi's: rotations that zero one product of two rows each, as many at a time as there are
// pairs of rows, until every product is negligible. Jacobi's method is as exact as any, and
// parallel.
//
// A matrix that is not positive definite gets NaN for its inverse: to tell the host would make it
// wait for the device within a step of training, whose check of the gradients finds NaN anyway. The
// others read back a status of each matrix.
#include <cmath>
#include <limits>
#include <string_view>

#include "core/cuda/kernels.h"
#include "core/cuda/rows.cuh"
#include "core/error.h"
#include "core/ops/decomposition.h"

namespace mobius {
namespace cuda {
namespace {

constexpr int block_size = 512, warps = block_size / warp_size;
constexpr int most_sweeps = 40;
constexpr double unit = std::numeric_limits<double>::epsilon() / 2;

/// The state of a matrix that the host reads.
enum Status : std::int32_t { done = 0, not_finite = 1, not_converged = 2 };

extern __shared__ double scratch[];

__device__ void fill(double* x, std::int64_t n, double value) {
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) x[i] = value;
}

// ---- Cholesky

/// Step k of W = L^-1, in place. Before it, rows i >= k hold what is left of a in the columns
/// j >= k, and the rows of the eliminated identity in the columns j < k. With p = 1 / sqrt(a_kk),
/// row k is finished by the factor p, and row i loses a_ik p of it. `row`[m] is shared: the
/// finished row k up to its diagonal, then the factors a_ik p, which are what row k has of a as
/// well.
__device__ void eliminate(double* a, std::int64_t m, std::int64_t k, double inverse_root,
                          double* row) {
  for (std::int64_t j = threadIdx.x; j < m; j += blockDim.x) {
    const double left = j < k ? a[k * m + j] : j == k ? 1 : a[j * m + k];
    row[j] = left * inverse_root;
  }
  __syncthreads();
  for (std::int64_t j = threadIdx.x; j < m; j += blockDim.x) a[k * m + j] = j <= k ? row[j] : 0;
  const std::int64_t lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
  for (std::int64_t i = k + 1 + warp; i < m; i += warps)
    for (std::int64_t j = lane; j <= i; j += warp_size) {
      const double before = j == k ? 0 : a[i * m + j];
      a[i * m + j] = fma(-row[i], row[j], before);
    }
  __syncthreads();
}

__global__ void __launch_bounds__(block_size) inverse_cholesky_kernel(double* w, std::int64_t m) {
  double* const a = w + blockIdx.x * m * m;
  for (std::int64_t k = 0; k < m; ++k) {
    const double pivot = a[k * m + k];
    if (!(pivot > 0)) {
      __syncthreads();  // the others have read it too
      fill(a, m * m, std::numeric_limits<double>::quiet_NaN());
      return;
    }
    eliminate(a, m, k, 1 / sqrt(pivot), scratch);
  }
}

// ---- Jacobi's rotations

struct RowPair {
  std::int64_t p, q;
};

/// Pair k of round r of a tournament of n rows, n even: in n - 1 rounds of n / 2 pairs each, every
/// row meets every other one.
__device__ RowPair pair_of(std::int64_t k, std::int64_t r, std::int64_t n) {
  if (k == 0) return {r, n - 1};
  const std::int64_t a = (r + k) % (n - 1), b = (r + n - 1 - k) % (n - 1);
  return a < b ? RowPair{a, b} : RowPair{b, a};
}

/// p' = cosine p - sine q, q' = sine p + cosine q; tangent = sine / cosine.
struct Rotation {
  double cosine = 1, sine = 0, tangent = 0;

  Rotation() = default;
  /// The smaller one after which the product of p and q is 0, from the products of the rows.
  __device__ Rotation(double pp, double qq, double pq) {
    const double theta = (qq - pp) / (2 * pq);
    tangent = copysign(1 / (fabs(theta) + sqrt(theta * theta + 1)), theta);
    cosine = 1 / sqrt(tangent * tangent + 1);
    sine = tangent * cosine;
  }
  __device__ void turn(double& p, double& q) const {
    const double before = p;
    p = fma(cosine, p, -sine * q);
    q = fma(sine, before, cosine * q);
  }
};

/// The largest magnitude of n numbers, in all threads; NaN if there is one.
__device__ double largest_magnitude(const double* x, std::int64_t n) {
  double largest = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x)
    largest = Larger()(largest, fabs(x[i]));
  return block_reduce(largest, 0.0, Larger());
}

/// How many of n numbers come before number i in descending order, equal ones in their own.
__device__ std::int64_t rank_of(const double* x, std::int64_t n, std::int64_t i) {
  std::int64_t rank = 0;
  for (std::int64_t j = 0; j < n; ++j) rank += x[j] > x[i] || (x[j] == x[i] && j < i);
  return rank;
}

// ---- eigenvalues, of matrices a[n, n], n even: a last row of zeros makes them so

/// The rotations of a round; each zeroes an element of a. Returns whether there was any above
/// `negligible` for this thread.
__device__ bool choose_rotations(const double* a, std::int64_t n, std::int64_t round,
                                 double negligible, Rotation* rotations) {
  bool any = false;
  for (std::int64_t k = threadIdx.x; k < n / 2; k += blockDim.x) {
    const auto [p, q] = pair_of(k, round, n);
    const double product = a[p * n + q];
    rotations[k] = Rotation();
    if (!(fabs(product) > negligible)) continue;
    rotations[k] = Rotation(a[p * n + p], a[q * n + q], product);
    any = true;
  }
  return any;
}

/// Rotates rows and columns where two pairs of rows meet, and what mirrors it: four elements each.
__device__ void turn_meeting(double* a, std::int64_t n, RowPair rows, RowPair columns,
                             const Rotation& of_rows, const Rotation& of_columns) {
  double pp = a[rows.p * n + columns.p], pq = a[rows.p * n + columns.q];
  double qp = a[rows.q * n + columns.p], qq = a[rows.q * n + columns.q];
  of_rows.turn(pp, qp);
  of_rows.turn(pq, qq);
  of_columns.turn(pp, pq);
  of_columns.turn(qp, qq);
  a[rows.p * n + columns.p] = a[columns.p * n + rows.p] = pp;
  a[rows.p * n + columns.q] = a[columns.q * n + rows.p] = pq;
  a[rows.q * n + columns.p] = a[columns.p * n + rows.q] = qp;
  a[rows.q * n + columns.q] = a[columns.q * n + rows.q] = qq;
}

/// Rotates a from both sides by the rotations of a round.
__device__ void turn_matrix(double* a, std::int64_t n, std::int64_t round,
                            const Rotation* rotations) {
  const std::int64_t pairs = n / 2;
  for (std::int64_t e = threadIdx.x; e < pairs * pairs; e += blockDim.x) {
    const std::int64_t i = e / pairs, j = e % pairs;
    if (i > j) continue;
    const RowPair rows = pair_of(i, round, n);
    const Rotation& rotation = rotations[i];
    if (i < j) {
      turn_meeting(a, n, rows, pair_of(j, round, n), rotation, rotations[j]);
    } else if (rotation.sine != 0) {
      const double moved = rotation.tangent * a[rows.p * n + rows.q];
      a[rows.p * n + rows.p] -= moved;
      a[rows.q * n + rows.q] += moved;
      a[rows.p * n + rows.q] = a[rows.q * n + rows.p] = 0;
    }
  }
}

/// Rotates the rows of v.
__device__ void turn_rows(double* v, std::int64_t n, std::int64_t round,
                          const Rotation* rotations) {
  for (std::int64_t e = threadIdx.x; e < n / 2 * n; e += blockDim.x) {
    const auto [p, q] = pair_of(e / n, round, n);
    rotations[e / n].turn(v[p * n + e % n], v[q * n + e % n]);
  }
}

/// Makes a diagonal, and turns v along.
__device__ Status diagonalize(double* a, double* v, std::int64_t n, double negligible,
                              Rotation* rotations) {
  for (int sweep = 0; sweep < most_sweeps; ++sweep) {
    bool any = false;
    for (std::int64_t round = 0; round < n - 1; ++round) {
      any |= choose_rotations(a, n, round, negligible, rotations);
      __syncthreads();
      turn_matrix(a, n, round, rotations);
      turn_rows(v, n, round, rotations);
      __syncthreads();
    }
    if (block_sum(any ? 1 : 0) == 0) return done;
  }
  return not_converged;
}

/// a[n, n] = the matrix whose lower triangle is in rows[m, m]; v = the identity.
__device__ void prepare_eigen(const double* rows, std::int64_t m, std::int64_t n, double* a,
                              double* v) {
  for (std::int64_t e = threadIdx.x; e < n * n; e += blockDim.x) {
    const std::int64_t i = e / n, j = e % n;
    const bool exists = i < m && j < m;
    a[e] = !exists ? 0 : j <= i ? rows[i * m + j] : rows[j * m + i];
    v[e] = i == j;
  }
  __syncthreads();
}

/// `work` has room for 2 matrices [n, n] of each block; shared memory for n / 2 rotations and m
/// numbers.
__global__ void __launch_bounds__(block_size)
    symmetric_eigen_kernel(double* rows, double* values, std::int64_t m, std::int64_t n,
                           double* work, std::int32_t* status) {
  double *const a = work + blockIdx.x * 2 * n * n, *const v = a + n * n;
  auto* const rotations = reinterpret_cast<Rotation*>(scratch + m);
  rows += blockIdx.x * m * m;
  values += blockIdx.x * m;
  prepare_eigen(rows, m, n, a, v);
  const double largest = largest_magnitude(a, n * n);
  Status state = not_finite;
  // What is left below `negligible` moves no eigenvalue by more than rounding.
  if (isfinite(largest)) state = diagonalize(a, v, n, unit / 2 * largest, rotations);
  for (std::int64_t i = threadIdx.x; i < m; i += blockDim.x) scratch[i] = -a[i * n + i];
  __syncthreads();
  const std::int64_t lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
  for (std::int64_t i = warp; state == done && i < m; i += warps) {
    const std::int64_t rank = rank_of(scratch, m, i);  // of the negative: ascending
    if (lane == 0) values[rank] = -scratch[i];
    for (std::int64_t j = lane; j < m; j += warp_size) rows[rank * m + j] = v[i * n + j];
  }
  if (threadIdx.x == 0) status[blockIdx.x] = state;
}

// ---- singular values

/// Rotates the rows of x[m, n] until each is orthogonal to every other one. A warp has a pair.
__device__ Status make_orthogonal(double* x, std::int64_t m, std::int64_t n) {
  const std::int64_t lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
  const std::int64_t even = round_up(m, 2);
  const double tolerance = 4 * unit * sqrt(static_cast<double>(n));
  for (int sweep = 0; sweep < most_sweeps; ++sweep) {
    bool any = false;
    for (std::int64_t round = 0; round < even - 1; ++round) {
      for (std::int64_t k = warp; k < even / 2; k += warps) {
        const auto [first, second] = pair_of(k, round, even);
        if (second >= m) continue;
        double *const p = x + first * n, *const q = x + second * n;
        double pp = 0, qq = 0, pq = 0;
        for (std::int64_t j = lane; j < n; j += warp_size) {
          pp = fma(p[j], p[j], pp);
          qq = fma(q[j], q[j], qq);
          pq = fma(p[j], q[j], pq);
        }
        pp = warp_sum(pp);
        qq = warp_sum(qq);
        pq = warp_sum(pq);
        if (!(fabs(pq) > tolerance * sqrt(pp) * sqrt(qq))) continue;
        any = true;
        const Rotation rotation(pp, qq, pq);
        for (std::int64_t j = lane; j < n; j += warp_size) rotation.turn(p[j], q[j]);
      }
      __syncthreads();
    }
    if (block_sum(any ? 1 : 0) == 0) return done;
  }
  return not_converged;
}

/// x[m, n] of each block, m <= n. Shared memory for m numbers.
__global__ void __launch_bounds__(block_size)
    singular_values_kernel(double* x, double* values, std::int64_t m, std::int64_t n,
                           std::int32_t* status) {
  x += blockIdx.x * m * n;
  values += blockIdx.x * m;
  const double largest = largest_magnitude(x, m * n);
  Status state = not_finite;
  if (isfinite(largest)) {
    // Squares neither overflow nor vanish.
    for (std::int64_t e = threadIdx.x; largest > 0 && e < m * n; e += blockDim.x) x[e] /= largest;
    __syncthreads();
    state = make_orthogonal(x, m, n);
  }
  const std::int64_t lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
  for (std::int64_t i = warp; i < m; i += warps) {
    double squares = 0;
    for (std::int64_t j = lane; j < n; j += warp_size)
      squares = fma(x[i * n + j], x[i * n + j], squares);
    squares = warp_sum(squares);
    if (lane == 0) scratch[i] = sqrt(squares) * largest;
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < m; i += blockDim.x)
    values[rank_of(scratch, m, i)] = scratch[i];
  if (threadIdx.x == 0) status[blockIdx.x] = state;
}

// ---- launches

LaunchShape for_matrices(std::int64_t batch, std::int64_t shared_doubles) {
  return {.grid = dim3(static_cast<unsigned>(batch)),
          .block = dim3(block_size),
          .shared_bytes = static_cast<std::size_t>(shared_doubles) * sizeof(double)};
}

/// Throws for the first matrix without a decomposition.
void require_done(std::string_view op, const Tensor& status) {
  const std::vector<std::int32_t> states = status.to_vector<std::int32_t>();
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (states[i] == not_finite)
      throw Error("{}: matrix {} of {} is not finite", op, i, states.size());
    if (states[i] == not_converged)
      throw Error("{}: the iteration for matrix {} of {} did not converge", op, i, states.size());
  }
}

class CudaDecomposition final : public DecompositionKernels {
 public:
  void inverse_cholesky(const Tensor& w) override {
    if (w.numel() == 0) return;
    launch(inverse_cholesky_kernel, for_matrices(w.size(0), w.size(1)), w.data<double>(),
           w.size(1));
  }

  void singular_values(const Tensor& x, const Tensor& values) override {
    if (x.numel() == 0) return;
    // The transposed matrix has the same singular values.
    const Tensor wide = x.size(1) <= x.size(2) ? x : x.transpose(1, 2).contiguous();
    const std::int64_t batch = x.size(0), m = wide.size(1), n = wide.size(2);
    const Tensor status = Tensor::empty({batch}, DType::i32, x.device());
    launch(singular_values_kernel, for_matrices(batch, m), wide.data<double>(),
           values.data<double>(), m, n, status.data<std::int32_t>());
    require_done("singular_values", status);
  }

  void symmetric_eigen(const Tensor& rows, const Tensor& values) override {
    if (rows.numel() == 0) return;
    const std::int64_t batch = rows.size(0), m = rows.size(1), n = round_up(m, 2);
    const Tensor work = Tensor::empty({batch, 2, n, n}, DType::f64, rows.device());
    const Tensor status = Tensor::empty({batch}, DType::i32, rows.device());
    const auto rotations = static_cast<std::int64_t>(sizeof(Rotation) / sizeof(double)) * n / 2;
    launch(symmetric_eigen_kernel, for_matrices(batch, m + rotations), rows.data<double>(),
           values.data<double>(), m, n, work.data<double>(), status.data<std::int32_t>());
    require_done("symmetric_eigen", status);
  }
};

}  // namespace
}  // namespace cuda

DecompositionKernels& cuda_decomposition_kernels() { return only<cuda::CudaDecomposition>(); }

}  // namespace mobius
