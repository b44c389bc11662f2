// Cross-entropy and its gradient, in place, in three passes over a row that stays in cache: the
// largest logit and its index, the exponentials and their sum, the division. The passes are
// vectorised along the row; threads share the rows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/loss.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cpu/kernels.h"
#include "core/cpu/rows.h"
#include "core/cpu/simd/softmax-inl.h"
#include "core/ops/loss.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

// Returns the first index of `value` in the row, or 0 if there is none (in a row of NaN).
template <class T>
std::int64_t first_index_of(T value, const T* row, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto wanted = hn::Set(d, value);
  std::int64_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    const auto lane = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, row + j), wanted));
    if (lane >= 0) return j + static_cast<std::int64_t>(lane);
  }
  for (; j < n; ++j) {
    if (row[j] == value) return j;
  }
  return 0;
}

struct RowLoss {
  double loss;
  std::int64_t prediction;
};

template <class T>
RowLoss cross_entropy_row(T* logits, std::int64_t n, std::int64_t label) {
  const T largest = largest_scaled(logits, n, T{1});
  const std::int64_t prediction = first_index_of(largest, logits, n);
  if (label == ignored_label) {
    std::fill(logits, logits + n, T{0});
    return {0, prediction};
  }
  const double at_label = static_cast<double>(logits[label]);
  const T sum = exponentials(logits, n, T{1}, largest, logits);
  scale_row(logits, n, 1 / sum);
  const double log_sum = std::log(static_cast<double>(sum));
  const double loss = log_sum + (static_cast<double>(largest) - at_label);
  logits[label] -= std::isfinite(loss) ? T{1} : std::numeric_limits<T>::quiet_NaN();
  return {loss, prediction};
}

class CpuLoss final : public LossKernels {
 public:
  void cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& losses,
                     const Tensor& predictions) override {
    dispatch_real("cross_entropy", logits.dtype(), [&]<class T>(TypeTag<T>) {
      dispatch_index("cross_entropy", labels.dtype(), [&](auto index) {
        const auto* const label = labels.data<typename decltype(index)::type>();
        const std::int64_t n = logits.size(1);
        parallel_for_each(logits.size(0), row_grain(n), [&](std::int64_t r) {
          const RowLoss row =
              cross_entropy_row(logits.data<T>() + r * n, n, static_cast<std::int64_t>(label[r]));
          losses.data<double>()[r] = row.loss;
          predictions.data<std::int64_t>()[r] = row.prediction;
        });
      });
    });
  }

  void count_correct(const Tensor& predictions, const Tensor& labels, const Tensor& scored,
                     const Tensor& count) override {
    const auto* const predicted = predictions.data<std::int64_t>();
    const auto* const label = labels.data<std::int64_t>();
    const auto* const counts = scored.data<std::uint8_t>();
    std::int64_t correct = 0;
    for (std::int64_t r = 0; r < predictions.numel(); ++r) {
      correct += counts[r] != 0 && predicted[r] == label[r];
    }
    *count.data<double>() = static_cast<double>(correct);
  }
};

LossKernels& loss_kernels() { return only<CpuLoss>(); }

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(loss_kernels);
LossKernels& cpu_loss_kernels() { return HWY_DYNAMIC_DISPATCH(loss_kernels)(); }

}  // namespace mobius
#endif  // HWY_ONCE
