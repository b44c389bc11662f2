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
#include "core/ops/norm.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Doubles = hn::ScalableTag<double>;
using V = hn::Vec<Doubles>;

// How a kernel reads and writes the piece of a row at p: as doubles, whatever T. Whole is a full
// vector; Tail is its first n lanes, the others read as 0 and are not written.
struct Whole {
  template <class T>
  HWY_INLINE V load(const T* p) const {
    if constexpr (std::is_same_v<T, double>)
      return hn::LoadU(Doubles(), p);
    else
      return hn::PromoteTo(Doubles(), hn::LoadU(hn::Rebind<T, Doubles>(), p));
  }
  template <class T>
  HWY_INLINE void store(V x, T* p) const {
    const hn::Rebind<T, Doubles> d;
    if constexpr (std::is_same_v<T, double>)
      hn::StoreU(x, d, p);
    else
      hn::StoreU(hn::DemoteTo(d, x), d, p);
  }
  HWY_INLINE V or_zero(V x) const { return x; }
};

struct Tail {
  std::size_t n;

  template <class T>
  HWY_INLINE V load(const T* p) const {
    const hn::Rebind<T, Doubles> d;
    const auto values = hn::MaskedLoad(hn::FirstN(d, n), d, p);
    if constexpr (std::is_same_v<T, double>)
      return values;
    else
      return hn::PromoteTo(Doubles(), values);
  }
  template <class T>
  HWY_INLINE void store(V x, T* p) const {
    const hn::Rebind<T, Doubles> d;
    if constexpr (std::is_same_v<T, double>)
      hn::BlendedStore(x, hn::FirstN(d, n), d, p);
    else
      hn::BlendedStore(hn::DemoteTo(d, x), hn::FirstN(d, n), d, p);
  }
  HWY_INLINE V or_zero(V x) const { return hn::IfThenElseZero(hn::FirstN(Doubles(), n), x); }
};

// fn(piece, j) for every piece of a row of n elements, j being where it starts.
template <class Fn>
HWY_INLINE void for_pieces(std::int64_t n, const Fn& fn) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Doubles()));
  std::int64_t j = 0;
  for (; j + lanes <= n; j += lanes) fn(Whole{}, j);
  if (j < n) fn(Tail{static_cast<std::size_t>(n - j)}, j);
}

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
    for_pieces(n,
               [&](auto piece, std::int64_t j) HWY_ATTR { sum = hn::Add(sum, piece.load(x + j)); });
    mean = total(sum) / count;
  }
  const V shift = hn::Set(Doubles(), mean);
  V squares = hn::Zero(Doubles());
  for_pieces(n, [&](auto piece, std::int64_t j) HWY_ATTR {
    const V distance = piece.or_zero(hn::Sub(piece.load(x + j), shift));
    squares = hn::MulAdd(distance, distance, squares);
  });
  return {mean, 1 / std::sqrt(total(squares) / count + eps)};
}

// y = weight (x - mean) rstd + bias; bias is null for RMS norm.
template <class T>
void normalize_row(const T* x, const RowStatistics& row, const T* weight, const T* bias,
                   std::int64_t n, T* y) {
  const V mean = hn::Set(Doubles(), row.mean), rstd = hn::Set(Doubles(), row.rstd);
  for_pieces(n, [&](auto piece, std::int64_t j) HWY_ATTR {
    const V normal = hn::Mul(hn::Sub(piece.load(x + j), mean), rstd);
    const V shift = bias ? piece.load(bias + j) : hn::Zero(Doubles());
    piece.store(hn::MulAdd(normal, piece.load(weight + j), shift), y + j);
  });
}

// With h = (x - mean) rstd and g = grad_y weight:
//   grad_x = rstd (g - mean(g) - h mean(g h)),  the term mean(g) only where the row was centred.
// Adds grad_y h to grad_weight and grad_y to grad_bias (null for RMS norm).
template <bool centred, class T>
void norm_backward_row(const T* x, const RowStatistics& row, const T* weight, const T* grad_y,
                       std::int64_t n, T* grad_x, double* grad_weight, double* grad_bias) {
  const V mean = hn::Set(Doubles(), row.mean), rstd = hn::Set(Doubles(), row.rstd);
  V sum_g = hn::Zero(Doubles()), sum_gh = hn::Zero(Doubles());
  for_pieces(n, [&](auto piece, std::int64_t j) HWY_ATTR {
    const V dy = piece.load(grad_y + j);
    const V h = hn::Mul(hn::Sub(piece.load(x + j), mean), rstd);
    const V g = hn::Mul(dy, piece.load(weight + j));
    sum_gh = hn::MulAdd(g, h, sum_gh);
    piece.store(hn::MulAdd(dy, h, piece.load(grad_weight + j)), grad_weight + j);
    if constexpr (centred) {
      sum_g = hn::Add(sum_g, g);
      piece.store(hn::Add(dy, piece.load(grad_bias + j)), grad_bias + j);
    }
  });
  const double count = static_cast<double>(n);
  const V mean_g = hn::Set(Doubles(), total(sum_g) / count);
  const V mean_gh = hn::Set(Doubles(), total(sum_gh) / count);
  for_pieces(n, [&](auto piece, std::int64_t j) HWY_ATTR {
    const V h = hn::Mul(hn::Sub(piece.load(x + j), mean), rstd);
    const V g = hn::MulSub(piece.load(grad_y + j), piece.load(weight + j), mean_g);
    piece.store(hn::Mul(rstd, hn::NegMulAdd(h, mean_gh, g)), grad_x + j);
  });
}

void rms_norm_rows(const Tensor& x, const Tensor& weight, double eps, const Tensor& y,
                   const Tensor& rstd, std::int64_t begin, std::int64_t end) {
  dispatch_real("rms_norm", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t n = x.size(1);
    for (std::int64_t r = begin; r < end; ++r) {
      const T* const row = x.data<T>() + r * n;
      const RowStatistics s = statistics<false>(row, n, eps);
      normalize_row<T>(row, s, weight.data<T>(), nullptr, n, y.data<T>() + r * n);
      rstd.data<double>()[r] = s.rstd;
    }
  });
}

void layer_norm_rows(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                     const Tensor& y, const Tensor& mean, const Tensor& rstd, std::int64_t begin,
                     std::int64_t end) {
  dispatch_real("layer_norm", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t n = x.size(1);
    for (std::int64_t r = begin; r < end; ++r) {
      const T* const row = x.data<T>() + r * n;
      const RowStatistics s = statistics<true>(row, n, eps);
      normalize_row<T>(row, s, weight.data<T>(), bias.data<T>(), n, y.data<T>() + r * n);
      mean.data<double>()[r] = s.mean;
      rstd.data<double>()[r] = s.rstd;
    }
  });
}

void rms_norm_backward_rows(const Tensor& x, const Tensor& weight, const Tensor& rstd,
                            const Tensor& grad_y, const Tensor& grad_x, double* grad_weight,
                            std::int64_t begin, std::int64_t end) {
  dispatch_real("rms_norm_backward", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t n = x.size(1);
    for (std::int64_t r = begin; r < end; ++r) {
      norm_backward_row<false, T>(x.data<T>() + r * n, {0, rstd.data<double>()[r]},
                                  weight.data<T>(), grad_y.data<T>() + r * n, n,
                                  grad_x.data<T>() + r * n, grad_weight, nullptr);
    }
  });
}

void layer_norm_backward_rows(const Tensor& x, const Tensor& weight, const Tensor& mean,
                              const Tensor& rstd, const Tensor& grad_y, const Tensor& grad_x,
                              double* grad_weight, double* grad_bias, std::int64_t begin,
                              std::int64_t end) {
  dispatch_real("layer_norm_backward", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t n = x.size(1);
    for (std::int64_t r = begin; r < end; ++r) {
      norm_backward_row<true, T>(
          x.data<T>() + r * n, {mean.data<double>()[r], rstd.data<double>()[r]}, weight.data<T>(),
          grad_y.data<T>() + r * n, n, grad_x.data<T>() + r * n, grad_weight, grad_bias);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(rms_norm_rows);
HWY_EXPORT(layer_norm_rows);
HWY_EXPORT(rms_norm_backward_rows);
HWY_EXPORT(layer_norm_backward_rows);

namespace {

// Gradients of a [D] parameter, summed by group of rows.
class GroupedSums {
 public:
  GroupedSums(std::int64_t groups, std::int64_t n)
      : groups_(groups), n_(n), sums_(static_cast<std::size_t>(groups * n)) {}

  double* group(std::int64_t i) { return sums_.data() + i * n_; }

  void add_up(const Tensor& out) const {
    dispatch_real("norm_backward", out.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      parallel_for(n_, 256, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t j = begin; j < end; ++j) {
          double sum = 0;
          for (std::int64_t i = 0; i < groups_; ++i)
            sum += sums_[static_cast<std::size_t>(i * n_ + j)];
          out.data<T>()[j] = static_cast<T>(sum);
        }
      });
    });
  }

 private:
  std::int64_t groups_, n_;
  std::vector<double> sums_;
};

// Some 64 groups of rows, so that their sums take little memory.
std::int64_t group_size(const Tensor& x) {
  return std::max(row_grain(x.size(1)), (x.size(0) + 63) / 64);
}

std::int64_t group_count(const Tensor& x) {
  return (x.size(0) + group_size(x) - 1) / group_size(x);
}

class CpuNorm final : public NormKernels {
 public:
  void rms_norm(const Tensor& x, const Tensor& weight, double eps, const Tensor& y,
                const Tensor& rstd) override {
    parallel_for(x.size(0), row_grain(x.size(1)), [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(rms_norm_rows)(x, weight, eps, y, rstd, begin, end);
    });
  }

  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  const Tensor& y, const Tensor& mean, const Tensor& rstd) override {
    parallel_for(x.size(0), row_grain(x.size(1)), [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(layer_norm_rows)(x, weight, bias, eps, y, mean, rstd, begin, end);
    });
  }

  void rms_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& rstd,
                         const Tensor& grad_y, const Tensor& grad_x,
                         const Tensor& grad_weight) override {
    const std::int64_t grain = group_size(x);
    GroupedSums weight_sums(group_count(x), x.size(1));
    parallel_for(x.size(0), grain, [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(rms_norm_backward_rows)
      (x, weight, rstd, grad_y, grad_x, weight_sums.group(begin / grain), begin, end);
    });
    weight_sums.add_up(grad_weight);
  }

  void layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean,
                           const Tensor& rstd, const Tensor& grad_y, const Tensor& grad_x,
                           const Tensor& grad_weight, const Tensor& grad_bias) override {
    const std::int64_t grain = group_size(x);
    GroupedSums weight_sums(group_count(x), x.size(1)), bias_sums(group_count(x), x.size(1));
    parallel_for(x.size(0), grain, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t group = begin / grain;
      HWY_DYNAMIC_DISPATCH(layer_norm_backward_rows)
      (x, weight, mean, rstd, grad_y, grad_x, weight_sums.group(group), bias_sums.group(group),
       begin, end);
    });
    weight_sums.add_up(grad_weight);
    bias_sums.add_up(grad_bias);
  }
};

}  // namespace

NormKernels& cpu_norm_kernels() {
  static CpuNorm kernels;
  return kernels;
}

}  // namespace mobius
#endif  // HWY_ONCE
