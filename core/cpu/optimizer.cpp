// Optimiser updates in one pass over gradient, parameter and moments, whole vectors at a time.
//
// Buffers of a parameter: dense, of equal length; the gradient is read, the others are updated in
// place.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/optimizer.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "core/cpu/chunk_list.h"
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
  const AdamWSettings& s;
  double lr, factor, weight_decay;
  double unbias_m, unbias_v;
  const T* grad;
  T *parameter, *m, *v;

  HWY_INLINE void operator()(auto d, auto access, std::int64_t i) const {
    const auto g = hn::Mul(access.load(grad + i), constant(d, factor));
    const auto p = access.load(parameter + i);
    const auto new_m =
        hn::MulAdd(constant(d, s.beta1), access.load(m + i), hn::Mul(constant(d, 1 - s.beta1), g));
    const auto new_v = hn::MulAdd(constant(d, s.beta2), access.load(v + i),
                                  hn::Mul(constant(d, 1 - s.beta2), hn::Mul(g, g)));
    const auto m_hat = hn::Mul(new_m, constant(d, unbias_m));
    const auto v_hat = hn::Mul(new_v, constant(d, unbias_v));
    const auto step = hn::Div(m_hat, hn::Add(hn::Sqrt(v_hat), constant(d, s.eps)));
    const auto move = hn::MulAdd(constant(d, weight_decay), p, step);
    access.store(new_m, m + i);
    access.store(new_v, v + i);
    access.store(hn::NegMulAdd(constant(d, lr), move, p), parameter + i);
  }
};

/// Without momentum: p -= lr (g + weight_decay p).
template <class T>
struct SgdUpdate {
  double lr, factor, weight_decay;
  const T* grad;
  T* parameter;

  HWY_INLINE void operator()(auto d, auto access, std::int64_t i) const {
    const auto p = access.load(parameter + i);
    const auto slope = hn::Mul(access.load(grad + i), constant(d, factor));
    const auto g = hn::MulAdd(constant(d, weight_decay), p, slope);
    access.store(hn::NegMulAdd(constant(d, lr), g, p), parameter + i);
  }
};

/// With g = gradient + weight_decay p:  b = momentum b + g (b = g at the first step),
/// p -= lr b, or lr (g + momentum b) by Nesterov. Momentum and decay as PyTorch defines them.
template <class T>
struct MomentumUpdate {
  const SgdSettings& s;
  double lr, factor, weight_decay;
  double kept;  // momentum, or 0 at the first step
  const T* grad;
  T *parameter, *buffer;

  HWY_INLINE void operator()(auto d, auto access, std::int64_t i) const {
    const auto p = access.load(parameter + i);
    const auto slope = hn::Mul(access.load(grad + i), constant(d, factor));
    const auto g = hn::MulAdd(constant(d, weight_decay), p, slope);
    const auto b = hn::MulAdd(constant(d, kept), access.load(buffer + i), g);
    const auto move = s.nesterov ? hn::MulAdd(constant(d, s.momentum), b, g) : b;
    access.store(b, buffer + i);
    access.store(hn::NegMulAdd(constant(d, lr), move, p), parameter + i);
  }
};

// Calls fn(update, begin, end) for chunks of all parameters that have a gradient.
template <typename Fn>
void for_chunks(std::span<const ParameterUpdate> updates, const double* scalars, Fn&& fn) {
  if (scalars[UpdateScalar::factor] == 0) return;
  ChunkList chunks(elementwise_grain);
  for (const ParameterUpdate& update : updates) {
    chunks.add(update.gradient.defined() ? update.value.numel() : 0);
  }
  parallel_for_each(chunks.size(), 1, [&](std::int64_t i) {
    const Chunk chunk = chunks[i];
    fn(updates[chunk.item], chunk.begin, chunk.end);
  });
}

class CpuOptimizer final : public OptimizerKernels {
 public:
  void clip_gradients(const Tensor& squares, double max_norm, const Tensor& scalars) override {
    double* now = scalars.data<double>();
    now[UpdateScalar::factor] = 0;
    if (now[UpdateScalar::failed_step] != 0) return;
    const double *begin = squares.data<double>(), *end = begin + squares.numel();
    const double norm = std::sqrt(std::accumulate(begin, end, 0.0));
    now[UpdateScalar::norm] = norm;
    if (std::isfinite(norm)) {
      now[UpdateScalar::factor] = norm > max_norm ? max_norm / norm : 1;
      return;
    }
    const double* bad = std::find_if_not(begin, end, [](double x) { return std::isfinite(x); });
    now[UpdateScalar::failed_step] = now[UpdateScalar::step];
    now[UpdateScalar::failed_gradient] = bad == end ? -1 : static_cast<double>(bad - begin);
  }

  void adamw(const AdamWSettings& s, std::span<const ParameterUpdate> updates,
             const Tensor& scalars) override {
    const double* now = scalars.data<double>();
    const double lr = now[UpdateScalar::learning_rate], factor = now[UpdateScalar::factor];
    const double step = now[UpdateScalar::step];
    const double unbias_m = 1 / (1 - std::pow(s.beta1, step));
    const double unbias_v = 1 / (1 - std::pow(s.beta2, step));
    for_chunks(updates, now, [&](const ParameterUpdate& update, auto begin, auto end) {
      dispatch_real("adamw", update.value.dtype(), [&]<class T>(TypeTag<T>) {
        for_vectors<T>(
            end - begin,
            AdamWUpdate<T>{s, lr, factor, update.decays ? s.weight_decay : 0, unbias_m, unbias_v,
                           update.gradient.data<T>() + begin, update.value.data<T>() + begin,
                           update.moments[0].data<T>() + begin,
                           update.moments[1].data<T>() + begin});
      });
    });
  }

  void sgd(const SgdSettings& s, std::span<const ParameterUpdate> updates,
           const Tensor& scalars) override {
    const double* now = scalars.data<double>();
    const double lr = now[UpdateScalar::learning_rate], factor = now[UpdateScalar::factor];
    const double kept = now[UpdateScalar::step] == 1 ? 0 : s.momentum;
    for_chunks(updates, now, [&](const ParameterUpdate& update, auto begin, auto end) {
      dispatch_real("sgd", update.value.dtype(), [&]<class T>(TypeTag<T>) {
        const double decay = update.decays ? s.weight_decay : 0;
        const T* g = update.gradient.data<T>() + begin;
        T* p = update.value.data<T>() + begin;
        if (s.momentum == 0)
          return for_vectors<T>(end - begin, SgdUpdate<T>{lr, factor, decay, g, p});
        for_vectors<T>(end - begin, MomentumUpdate<T>{s, lr, factor, decay, kept, g, p,
                                                      update.moments[0].data<T>() + begin});
      });
    });
  }
};

OptimizerKernels& optimizer_kernels() { return only<CpuOptimizer>(); }

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(optimizer_kernels);
OptimizerKernels& cpu_optimizer_kernels() { return HWY_DYNAMIC_DISPATCH(optimizer_kernels)(); }

}  // namespace mobius
#endif  // HWY_ONCE
