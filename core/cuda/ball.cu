// Queries as points of the ball, and the logarithms of their weights: a block a row.
// Buffers: outputs are dense and overwritten (=).
#include "core/cuda/kernels.h"
#include "core/cuda/launch.cuh"
#include "core/cuda/reduce.cuh"
#include "core/ops/ball.h"

namespace mobius::cuda {
namespace {

#include "core/ops/ball.inc"

/// The arithmetic of ball.inc over one number.
template <class T>
struct NumberMath {
  __device__ T constant(double x) const { return static_cast<T>(x); }
  __device__ T sqrt(T x) const { return ::sqrt(x); }
  __device__ T log(T x) const { return ::log(x); }
  __device__ T log1p(T x) const { return ::log1p(x); }
  __device__ T min(T a, T b) const { return b < a ? b : a; }  // keeps NaN
  __device__ T one_where_less(T a, T b) const { return a < b ? T{1} : T{0}; }
};

/// A matrix [rows, n], null if it is undefined. Row r is that of index r modulo `rows`.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t rows = 1, n = 0;

  Rows() = default;
  Rows(const Tensor& x, std::int64_t width)  // NOLINT: a tensor or nothing
      : data(x.defined() ? x.data<T>() : nullptr),
        rows(x.defined() ? x.numel() / width : 1),
        n(width) {}
  __device__ T* row() const { return data ? data + blockIdx.x % rows * n : nullptr; }
};

template <class T>
BallPoint<Rows<T>> rows_of(const BallRadiusResult& x, std::int64_t n) {
  return {{x.r, n}, {x.one_minus_r, n}, {x.sharpness, n}};
}

template <class T>
__device__ T factor_of_row(const BallRadius& how, const Rows<T>& alpha) {
  return static_cast<T>(how.factor) * (alpha.data ? *alpha.row() : T{1});
}

template <class T>
__global__ void radius(BallRadius how, Rows<T> length, Rows<T> alpha, BallPoint<Rows<T>> out) {
  const T factor = factor_of_row(how, alpha);
  for (std::int64_t i = threadIdx.x; i < length.n; i += blockDim.x) {
    const BallPoint<T> point = ball_point(NumberMath<T>(), how, factor * length.row()[i]);
    out.r.row()[i] = point.r;
    out.one_minus_r.row()[i] = point.one_minus_r;
    out.sharpness.row()[i] = point.sharpness;
  }
}

template <class T>
__device__ T load_or_zero(const T* row, std::int64_t i) {
  return row ? row[i] : T{0};
}

template <class T>
__global__ void radius_backward(BallRadius how, Rows<T> length, Rows<T> alpha,
                                BallPoint<Rows<T>> values, BallPoint<Rows<T>> grads,
                                Rows<T> grad_length, Rows<T> grad_alpha) {
  const T factor = factor_of_row(how, alpha);
  T sum = 0;
  for (std::int64_t i = threadIdx.x; i < length.n; i += blockDim.x) {
    const BallPoint<T> point{values.r.row()[i], values.one_minus_r.row()[i],
                             values.sharpness.row()[i]};
    const BallPoint<T> grad{load_or_zero(grads.r.row(), i),
                            load_or_zero(grads.one_minus_r.row(), i),
                            load_or_zero(grads.sharpness.row(), i)};
    const T x = length.row()[i];
    const T grad_beta = ball_point_gradient(NumberMath<T>(), how, factor * x, point, grad);
    sum += x * grad_beta;
    grad_length.row()[i] = factor * grad_beta;
  }
  if (!grad_alpha.data) return;
  sum = block_sum(sum);
  if (threadIdx.x == 0) *grad_alpha.row() = static_cast<T>(how.factor) * sum;
}

template <class T>
__global__ void log_factor(BallLogFactor how, Rows<T> r, Rows<T> one_minus_r, Rows<T> counts,
                           Rows<T> g) {
  const NumberMath<T> m;
  const T* const count = counts.row();
  for (std::int64_t i = threadIdx.x; i < r.n; i += blockDim.x) {
    const T value = ball_log_factor_value(m, how, r.row()[i], one_minus_r.row()[i]);
    g.row()[i] = count ? value - m.log(count[i] > T{1} ? count[i] : T{1}) : value;
  }
}

template <class T>
__global__ void log_factor_backward(BallLogFactor how, Rows<T> r, Rows<T> one_minus_r, Rows<T> grad,
                                    Rows<T> grad_r, Rows<T> grad_one_minus_r) {
  for (std::int64_t i = threadIdx.x; i < r.n; i += blockDim.x) {
    const BallLogFactorSlopes<T> slopes =
        ball_log_factor_slopes(NumberMath<T>(), how, r.row()[i], one_minus_r.row()[i]);
    grad_r.row()[i] = slopes.r * grad.row()[i];
    grad_one_minus_r.row()[i] = slopes.one_minus_r * grad.row()[i];
  }
}

/// A block for each row of x[R, N].
LaunchShape for_rows(const Tensor& x) {
  return {.grid = dim3(static_cast<unsigned>(x.size(0))), .block = default_block};
}

class CudaBall final : public BallKernels {
 public:
  void ball_radius(const Tensor& length, const Tensor& alpha, const BallRadius& how,
                   const BallRadiusResult& result) override {
    dispatch_real("ball_radius", length.dtype(), [&]<class T>(TypeTag<T>) {
      const std::int64_t n = length.size(1);
      launch(radius<T>, for_rows(length), how, Rows<T>(length, n), Rows<T>(alpha, 1),
             rows_of<T>(result, n));
    });
  }

  void ball_radius_backward(const Tensor& length, const Tensor& alpha, const BallRadius& how,
                            const BallRadiusResult& result, const BallRadiusResult& grads,
                            const Tensor& grad_length, const Tensor& grad_alpha) override {
    dispatch_real("ball_radius_backward", length.dtype(), [&]<class T>(TypeTag<T>) {
      const std::int64_t n = length.size(1);
      launch(radius_backward<T>, for_rows(length), how, Rows<T>(length, n), Rows<T>(alpha, 1),
             rows_of<T>(result, n), rows_of<T>(grads, n), Rows<T>(grad_length, n),
             Rows<T>(grad_alpha, 1));
    });
  }

  void ball_log_factor(const Tensor& r, const Tensor& one_minus_r, const Tensor& counts,
                       const BallLogFactor& how, const Tensor& g) override {
    dispatch_real("ball_log_factor", r.dtype(), [&]<class T>(TypeTag<T>) {
      const std::int64_t n = r.size(1);
      launch(log_factor<T>, for_rows(r), how, Rows<T>(r, n), Rows<T>(one_minus_r, n),
             Rows<T>(counts, n), Rows<T>(g, n));
    });
  }

  void ball_log_factor_backward(const Tensor& r, const Tensor& one_minus_r,
                                const BallLogFactor& how, const Tensor& grad,
                                const BallLogFactorGrads& grads) override {
    dispatch_real("ball_log_factor_backward", r.dtype(), [&]<class T>(TypeTag<T>) {
      const std::int64_t n = r.size(1);
      launch(log_factor_backward<T>, for_rows(r), how, Rows<T>(r, n), Rows<T>(one_minus_r, n),
             Rows<T>(grad, n), Rows<T>(grads.r, n), Rows<T>(grads.one_minus_r, n));
    });
  }
};

}  // namespace
}  // namespace mobius::cuda

namespace mobius {

BallKernels& cuda_ball_kernels() { return only<cuda::CudaBall>(); }

}  // namespace mobius
