// Optimiser updates in one pass over gradient, parameter and moments, whole vectors at a time.
//
// Buffers: dense, of equal length; the gradient is read, the others are updated in place.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/optimizer.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <cmath>

#include "core/cpu/grain.h"
#include "core/cpu/kernels.h"
#include "core/cpu/simd/math-inl.h"
#include "core/cpu/simd/vectors-inl.h"
#include "core/ops/optimizer.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

/// m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
/// p -= lr (m_hat / (sqrt(v_hat) + eps) + weight_decay p),  x_hat = x / (1 - beta^step):
/// Adam with decoupled weight decay (Loshchilov and Hutter 2019), docs/MATH.md section 5.
template <class T>
struct AdamWUpdate {
  const AdamWStep& s;
  double unbias_m, unbias_v;
  const T* grad;
  T *parameter, *m, *v;

  template <class D, class Access>
  HWY_INLINE void operator()(D d, Access access, std::int64_t i) const {
    const auto g = access.load(grad + i), p = access.load(parameter + i);
    const auto new_m =
        hn::MulAdd(constant(d, s.beta1), access.load(m + i), hn::Mul(constant(d, 1 - s.beta1), g));
    const auto new_v = hn::MulAdd(constant(d, s.beta2), access.load(v + i),
                                  hn::Mul(constant(d, 1 - s.beta2), hn::Mul(g, g)));
    const auto m_hat = hn::Mul(new_m, constant(d, unbias_m));
    const auto v_hat = hn::Mul(new_v, constant(d, unbias_v));
    const auto step = hn::Div(m_hat, hn::Add(hn::Sqrt(v_hat), constant(d, s.eps)));
    const auto move = hn::MulAdd(constant(d, s.weight_decay), p, step);
    access.store(new_m, m + i);
    access.store(new_v, v + i);
    access.store(hn::NegMulAdd(constant(d, s.lr), move, p), parameter + i);
  }
};

/// Without momentum: p -= lr (g + weight_decay p).
template <class T>
struct SgdUpdate {
  const SgdStep& s;
  const T* grad;
  T* parameter;

  template <class D, class Access>
  HWY_INLINE void operator()(D d, Access access, std::int64_t i) const {
    const auto p = access.load(parameter + i);
    const auto g = hn::MulAdd(constant(d, s.weight_decay), p, access.load(grad + i));
    access.store(hn::NegMulAdd(constant(d, s.lr), g, p), parameter + i);
  }
};

/// With g = gradient + weight_decay p:  b = momentum b + g (b = g at the first step),
/// p -= lr b, or lr (g + momentum b) by Nesterov. Momentum and decay as PyTorch defines them.
template <class T>
struct MomentumUpdate {
  const SgdStep& s;
  double kept;  // momentum, or 0 at the first step
  const T* grad;
  T *parameter, *buffer;

  template <class D, class Access>
  HWY_INLINE void operator()(D d, Access access, std::int64_t i) const {
    const auto p = access.load(parameter + i);
    const auto g = hn::MulAdd(constant(d, s.weight_decay), p, access.load(grad + i));
    const auto b = hn::MulAdd(constant(d, kept), access.load(buffer + i), g);
    const auto move = s.nesterov ? hn::MulAdd(constant(d, s.momentum), b, g) : b;
    access.store(b, buffer + i);
    access.store(hn::NegMulAdd(constant(d, s.lr), move, p), parameter + i);
  }
};

void adamw_chunk(const AdamWStep& s, const Tensor& grad, const Tensor& parameter, const Tensor& m,
                 const Tensor& v, std::int64_t begin, std::int64_t end) {
  dispatch_real("adamw", parameter.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto step = static_cast<double>(s.step);
    for_vectors<T>(end - begin, AdamWUpdate<T>{s, 1 / (1 - std::pow(s.beta1, step)),
                                               1 / (1 - std::pow(s.beta2, step)),
                                               grad.data<T>() + begin, parameter.data<T>() + begin,
                                               m.data<T>() + begin, v.data<T>() + begin});
  });
}

void sgd_chunk(const SgdStep& s, const Tensor& grad, const Tensor& parameter,
               const Tensor& momentum, std::int64_t begin, std::int64_t end) {
  dispatch_real("sgd", parameter.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* g = grad.data<T>() + begin;
    T* p = parameter.data<T>() + begin;
    if (s.momentum == 0) return for_vectors<T>(end - begin, SgdUpdate<T>{s, g, p});
    const double kept = s.step == 1 ? 0 : s.momentum;
    for_vectors<T>(end - begin, MomentumUpdate<T>{s, kept, g, p, momentum.data<T>() + begin});
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(adamw_chunk);
HWY_EXPORT(sgd_chunk);

namespace {

class CpuOptimizer final : public OptimizerKernels {
 public:
  void adamw(const AdamWStep& s, const Tensor& grad, const Tensor& parameter, const Tensor& m,
             const Tensor& v) override {
    parallel_for(parameter.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(adamw_chunk)(s, grad, parameter, m, v, begin, end);
    });
  }

  void sgd(const SgdStep& s, const Tensor& grad, const Tensor& parameter,
           const Tensor& momentum) override {
    parallel_for(parameter.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(sgd_chunk)(s, grad, parameter, momentum, begin, end);
    });
  }
};

}  // namespace

OptimizerKernels& cpu_optimizer_kernels() {
  static CpuOptimizer kernels;
  return kernels;
}

}  // namespace mobius
#endif  // HWY_ONCE
