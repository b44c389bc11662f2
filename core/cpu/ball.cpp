// Queries as points of the ball, and the logarithms of their weights: one pass each.
// Buffers: outputs are dense and overwritten (=).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/ball.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include "core/cpu/kernels.h"
#include "core/cpu/rows.h"
#include "core/cpu/simd/math-inl.h"
#include "core/cpu/simd/vectors-inl.h"
#include "core/ops/ball.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

#include "core/ops/ball.inc"

/// The arithmetic of ball.inc over vectors.
template <class D>
struct VectorMath {
  using V = hn::Vec<D>;
  HWY_INLINE V constant(double x) const { return hn::Set(D(), static_cast<hn::TFromD<D>>(x)); }
  HWY_INLINE V sqrt(V x) const { return hn::Sqrt(x); }
  HWY_INLINE V log(V x) const { return HWY_NAMESPACE::log(D(), x); }
  HWY_INLINE V log1p(V x) const { return HWY_NAMESPACE::log1p(D(), x); }
  HWY_INLINE V min(V a, V b) const { return hn::IfThenElse(hn::Lt(b, a), b, a); }  // keeps NaN
  HWY_INLINE V one_where_less(V a, V b) const {
    return hn::IfThenElseZero(hn::Lt(a, b), constant(1));
  }
};

/// A row of x[R, N]; null if x is undefined.
template <class T>
T* row_of(const Tensor& x, std::int64_t row) {
  return x.defined() ? x.data<T>() + row % x.size(0) * x.size(1) : nullptr;
}
template <class T>
BallPoint<T*> rows_of(const BallRadiusResult& x, std::int64_t row) {
  return {row_of<T>(x.r, row), row_of<T>(x.one_minus_r, row), row_of<T>(x.sharpness, row)};
}

template <class T>
T factor_of(const Tensor& alpha, const BallRadius& how, std::int64_t row) {
  const T own = alpha.defined() ? alpha.data<T>()[row % alpha.numel()] : T{1};
  return static_cast<T>(how.factor) * own;
}

template <class T>
void radius_row(const BallRadius& how, T factor, const T* length, std::int64_t n,
                const BallPoint<T*>& out) {
  for_vectors<T>(n, [&](auto d, auto memory, std::int64_t i) HWY_ATTR {
    const VectorMath<decltype(d)> m;
    const auto point = ball_point(m, how, hn::Mul(hn::Set(d, factor), memory.load(length + i)));
    memory.store(point.r, out.r + i);
    memory.store(point.one_minus_r, out.one_minus_r + i);
    memory.store(point.sharpness, out.sharpness + i);
  });
}

/// Writes the gradient of the lengths and returns sum_i length_i d loss / d beta_i.
template <class T>
T radius_row_backward(const BallRadius& how, T factor, const T* length, std::int64_t n,
                      const BallPoint<T*>& values, const BallPoint<T*>& grads, T* grad_length) {
  const hn::ScalableTag<T> lanes;
  auto sum = hn::Zero(lanes);
  for_vectors<T>(n, [&](auto d, auto memory, std::int64_t i) HWY_ATTR {
    const VectorMath<decltype(d)> m;
    const auto load = [&](const T* from)
                          HWY_ATTR { return from ? memory.load(from + i) : hn::Zero(d); };
    const BallPoint<hn::Vec<decltype(d)>> point{load(values.r), load(values.one_minus_r),
                                                load(values.sharpness)},
        grad{load(grads.r), load(grads.one_minus_r), load(grads.sharpness)};
    const auto x = load(length);
    const auto grad_beta = ball_point_gradient(m, how, hn::Mul(hn::Set(d, factor), x), point, grad);
    sum = hn::Add(sum, memory.or_zero(hn::Mul(x, grad_beta)));
    memory.store(hn::Mul(hn::Set(d, factor), grad_beta), grad_length + i);
  });
  return hn::GetLane(hn::SumOfLanes(lanes, sum));
}

class CpuBall final : public BallKernels {
 public:
  void ball_radius(const Tensor& length, const Tensor& alpha, const BallRadius& how,
                   const BallRadiusResult& result) override {
    dispatch_real("ball_radius", length.dtype(), [&]<class T>(TypeTag<T>) {
      const std::int64_t n = length.size(1);
      parallel_for_each(length.size(0), row_grain(n), [&](std::int64_t row) {
        radius_row(how, factor_of<T>(alpha, how, row), row_of<T>(length, row), n,
                   rows_of<T>(result, row));
      });
    });
  }

  void ball_radius_backward(const Tensor& length, const Tensor& alpha, const BallRadius& how,
                            const BallRadiusResult& result, const BallRadiusResult& grads,
                            const Tensor& grad_length, const Tensor& grad_alpha) override {
    dispatch_real("ball_radius_backward", length.dtype(), [&]<class T>(TypeTag<T>) {
      const std::int64_t n = length.size(1);
      parallel_for_each(length.size(0), row_grain(n), [&](std::int64_t row) {
        const T sum = radius_row_backward(how, factor_of<T>(alpha, how, row),
                                          row_of<T>(length, row), n, rows_of<T>(result, row),
                                          rows_of<T>(grads, row), row_of<T>(grad_length, row));
        if (grad_alpha.defined()) grad_alpha.data<T>()[row] = static_cast<T>(how.factor) * sum;
      });
    });
  }

  void ball_log_factor(const Tensor& r, const Tensor& one_minus_r, const Tensor& counts,
                       const BallLogFactor& how, const Tensor& g) override {
    dispatch_real("ball_log_factor", r.dtype(), [&]<class T>(TypeTag<T>) {
      const std::int64_t n = r.size(1);
      parallel_for_each(r.size(0), row_grain(n), [&](std::int64_t row) {
        const T *const from = row_of<T>(r, row), *const below = row_of<T>(one_minus_r, row);
        const T* const count = row_of<T>(counts, row);
        T* const to = row_of<T>(g, row);
        for_vectors<T>(n, [&](auto d, auto memory, std::int64_t i) HWY_ATTR {
          const VectorMath<decltype(d)> m;
          auto value = ball_log_factor_value(m, how, memory.load(from + i), memory.load(below + i));
          if (count) value = hn::Sub(value, m.log(hn::Max(memory.load(count + i), m.constant(1))));
          memory.store(value, to + i);
        });
      });
    });
  }

  void ball_log_factor_backward(const Tensor& r, const Tensor& one_minus_r,
                                const BallLogFactor& how, const Tensor& grad,
                                const BallLogFactorGrads& grads) override {
    dispatch_real("ball_log_factor_backward", r.dtype(), [&]<class T>(TypeTag<T>) {
      const std::int64_t n = r.size(1);
      parallel_for_each(r.size(0), row_grain(n), [&](std::int64_t row) {
        const T *const from = row_of<T>(r, row), *const below = row_of<T>(one_minus_r, row);
        const T* const of_g = row_of<T>(grad, row);
        T *const to_r = row_of<T>(grads.r, row), *const to_below =
                                                     row_of<T>(grads.one_minus_r, row);
        for_vectors<T>(n, [&](auto d, auto memory, std::int64_t i) HWY_ATTR {
          const VectorMath<decltype(d)> m;
          const auto slopes =
              ball_log_factor_slopes(m, how, memory.load(from + i), memory.load(below + i));
          memory.store(hn::Mul(slopes.r, memory.load(of_g + i)), to_r + i);
          memory.store(hn::Mul(slopes.one_minus_r, memory.load(of_g + i)), to_below + i);
        });
      });
    });
  }
};

BallKernels& ball_kernels() { return only<CpuBall>(); }

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(ball_kernels);
BallKernels& cpu_ball_kernels() { return HWY_DYNAMIC_DISPATCH(ball_kernels)(); }

}  // namespace mobius
#endif  // HWY_ONCE
