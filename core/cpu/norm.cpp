// RMS and layer norm over rows, forward and backward. All arithmetic is in double, whatever the
// element type: rows with a mean far from 0 lose nothing, and the passes are bound by memory
// anyway. Vectorised along the row; rows are shared among threads in fixed groups. Each group sums
// its part of the gradient of weight and bias apart; the parts are added in order. Buffers: dense,
// overwritten (=).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/norm.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/cpu/kernels.h"
#include "core/cpu/rows.h"
#include "core/cpu/simd/vectors-inl.h"
#include "core/ops/norm.h"
#include "core/parallel.h"
#include "core/round.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

using Doubles = hn::ScalableTag<double>;
using V = hn::Vec<Doubles>;

HWY_INLINE double total(V x) { return hn::GetLane(hn::SumOfLanes(Doubles(), x)); }

// The mean of a row, 0 for RMS norm, and 1 / sqrt(mean square distance from it + eps).
struct RowStatistics {
  double mean, rstd;
};

template <bool centred, class T>
RowStatistics statistics(const T* x, std::int64_t n, double eps) {
  const double count = static_cast<double>(n);
  double mean = 0;
  if constexpr (centred) {
    V sum = hn::Zero(Doubles());
    for_vectors<double>(n, [&](auto, auto memory, std::int64_t j)
                               HWY_ATTR { sum = hn::Add(sum, memory.load(x + j)); });
    mean = total(sum) / count;
  }
  const V shift = hn::Set(Doubles(), mean);
  V squares = hn::Zero(Doubles());
  for_vectors<double>(n, [&](auto, auto memory, std::int64_t j) HWY_ATTR {
    const V distance = memory.or_zero(hn::Sub(memory.load(x + j), shift));
    squares = hn::MulAdd(distance, distance, squares);
  });
  return {mean, 1 / std::sqrt(total(squares) / count + eps)};
}

// y = weight (x - mean) rstd + bias; bias is null for RMS norm.
template <class T>
void normalize_row(const T* x, const RowStatistics& row, const T* weight, const T* bias,
                   std::int64_t n, T* y) {
  const V mean = hn::Set(Doubles(), row.mean), rstd = hn::Set(Doubles(), row.rstd);
  for_vectors<double>(n, [&](auto, auto memory, std::int64_t j) HWY_ATTR {
    const V normal = hn::Mul(hn::Sub(memory.load(x + j), mean), rstd);
    const V shift = bias ? memory.load(bias + j) : hn::Zero(Doubles());
    memory.store(hn::MulAdd(normal, memory.load(weight + j), shift), y + j);
  });
}

// With h = (x - mean) rstd and g = grad_y weight:
//   grad_x = rstd (g - mean(g) - h mean(g h)),  the term mean(g) only if the row was centred.
// Adds grad_y h to grad_weight and grad_y to grad_bias (null for RMS norm).
template <bool centred, class T>
void norm_backward_row(const T* x, const RowStatistics& row, const T* weight, const T* grad_y,
                       std::int64_t n, T* grad_x, double* grad_weight, double* grad_bias) {
  const V mean = hn::Set(Doubles(), row.mean), rstd = hn::Set(Doubles(), row.rstd);
  V sum_g = hn::Zero(Doubles()), sum_gh = hn::Zero(Doubles());
  for_vectors<double>(n, [&](auto, auto memory, std::int64_t j) HWY_ATTR {
    const V dy = memory.load(grad_y + j);
    const V h = hn::Mul(hn::Sub(memory.load(x + j), mean), rstd);
    const V g = hn::Mul(dy, memory.load(weight + j));
    sum_gh = hn::MulAdd(g, h, sum_gh);
    memory.store(hn::MulAdd(dy, h, memory.load(grad_weight + j)), grad_weight + j);
    if constexpr (centred) {
      sum_g = hn::Add(sum_g, g);
      memory.store(hn::Add(dy, memory.load(grad_bias + j)), grad_bias + j);
    }
  });
  const double count = static_cast<double>(n);
  const V mean_g = hn::Set(Doubles(), total(sum_g) / count);
  const V mean_gh = hn::Set(Doubles(), total(sum_gh) / count);
  for_vectors<double>(n, [&](auto, auto memory, std::int64_t j) HWY_ATTR {
    const V h = hn::Mul(hn::Sub(memory.load(x + j), mean), rstd);
    const V g = hn::MulSub(memory.load(grad_y + j), memory.load(weight + j), mean_g);
    memory.store(hn::Mul(rstd, hn::NegMulAdd(h, mean_gh, g)), grad_x + j);
  });
}

// Gradients of a [D] parameter, summed by group of rows.
class GroupedSums {
 public:
  GroupedSums(std::int64_t groups, std::int64_t n)
      : groups_(groups), n_(n), sums_(static_cast<std::size_t>(groups * n)) {}

  double* group(std::int64_t i) { return sums_.data() + i * n_; }

  template <class T>
  void add_up(T* out) const {
    parallel_for_each(n_, 256, [&](std::int64_t j) {
      double sum = 0;
      for (std::int64_t i = 0; i < groups_; ++i) sum += sums_[static_cast<std::size_t>(i * n_ + j)];
      out[j] = static_cast<T>(sum);
    });
  }

 private:
  std::int64_t groups_, n_;
  std::vector<double> sums_;
};

// Some 64 groups of rows, so that their sums take little memory.
std::int64_t group_size(const Tensor& x) {
  return std::max(row_grain(x.size(1)), ceil_div(x.size(0), 64));
}

template <bool centred, class T>
void norm_rows(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
               const NormResult& result) {
  const std::int64_t n = x.size(1);
  parallel_for_each(x.size(0), row_grain(n), [&](std::int64_t r) {
    const T* const row = x.data<T>() + r * n;
    const RowStatistics s = statistics<centred>(row, n, eps);
    normalize_row<T>(row, s, weight.data<T>(), centred ? bias.data<T>() : nullptr, n,
                     result.y.data<T>() + r * n);
    if constexpr (centred) result.mean.data<double>()[r] = s.mean;
    result.rstd.data<double>()[r] = s.rstd;
  });
}

template <bool centred, class T>
void norm_backward_rows(const Tensor& x, const Tensor& weight, const Tensor& mean,
                        const Tensor& rstd, const Tensor& grad_y, const NormGrads& grads) {
  const std::int64_t n = x.size(1), grain = group_size(x), groups = ceil_div(x.size(0), grain);
  GroupedSums weight_sums(groups, n), bias_sums(centred ? groups : 0, n);
  parallel_for_each(x.size(0), grain, [&](std::int64_t r) {
    const RowStatistics s{centred ? mean.data<double>()[r] : 0, rstd.data<double>()[r]};
    norm_backward_row<centred, T>(x.data<T>() + r * n, s, weight.data<T>(),
                                  grad_y.data<T>() + r * n, n, grads.x.data<T>() + r * n,
                                  weight_sums.group(r / grain),
                                  centred ? bias_sums.group(r / grain) : nullptr);
  });
  weight_sums.add_up(grads.weight.data<T>());
  if constexpr (centred) bias_sums.add_up(grads.bias.data<T>());
}

class CpuNorm final : public NormKernels {
 public:
  void norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
            const NormResult& result) override {
    dispatch_real("norm", x.dtype(), [&]<class T>(TypeTag<T>) {
      if (bias.defined()) return norm_rows<true, T>(x, weight, bias, eps, result);
      norm_rows<false, T>(x, weight, bias, eps, result);
    });
  }
  void norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                     const Tensor& grad_y, const NormGrads& grads) override {
    dispatch_real("norm_backward", x.dtype(), [&]<class T>(TypeTag<T>) {
      if (mean.defined()) return norm_backward_rows<true, T>(x, weight, mean, rstd, grad_y, grads);
      norm_backward_rows<false, T>(x, weight, mean, rstd, grad_y, grads);
    });
  }
};

NormKernels& norm_kernels() { return only<CpuNorm>(); }

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(norm_kernels);
NormKernels& cpu_norm_kernels() { return HWY_DYNAMIC_DISPATCH(norm_kernels)(); }

}  // namespace mobius
#endif  // HWY_ONCE
