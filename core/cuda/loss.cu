// Cross-entropy and its gradient, in place, in two passes over a row, of which the second finds it
// in cache: the largest logit with its index and the sum of the exponentials, then the gradient. A
// team of threads has a row: a block of 512 one of a vocabulary.
#include <cstdint>

#include "core/cuda/kernels.h"
#include "core/cuda/softmax.cuh"
#include "core/ops/loss.h"

namespace mobius {
namespace cuda {
namespace {

/// Labels in i32 or i64.
struct LabelArray {
  const void* data;
  bool is_wide;

  explicit LabelArray(const Tensor& labels)
      : data(labels.raw()), is_wide(labels.dtype() == DType::i64) {}
  __device__ std::int64_t operator[](std::int64_t r) const {
    return is_wide ? static_cast<const std::int64_t*>(data)[r]
                   : static_cast<const std::int32_t*>(data)[r];
  }
};

template <class T>
struct CrossEntropyArguments {
  T* logits;  // [n_rows, n]
  LabelArray labels;
  std::int64_t n_rows, n;
  double* losses;
  std::int64_t* predictions;
};

struct Smaller {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};

constexpr std::int64_t nowhere = INT64_MAX;

/// The first index of the largest logit, NaN aside.
template <class T>
struct FirstLargest {
  T largest = -std::numeric_limits<T>::infinity();
  std::int64_t at = nowhere;

  /// The places that a thread adds ascend.
  template <int kWidth>
  __device__ void add(PackPlace<kWidth> place, const Pack<T, kWidth>& x) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const bool is_first = x[i] > largest || (at == nowhere && x[i] == largest);
      if (!place.has(i) || !is_first) continue;
      largest = x[i];
      at = place.first + i;
    }
  }
  /// The index in the row of a team; 0 if it is all NaN.
  __device__ std::int64_t combine_team(T largest_of_team) const {
    const std::int64_t first =
        team_reduce(largest == largest_of_team ? at : nowhere, nowhere, Smaller());
    return first == nowhere ? 0 : first;
  }
};

/// The pack at `place`, -inf where there is no element.
template <int kWidth, class T>
__device__ Pack<T, kWidth> load_logits(const T* row, PackPlace<kWidth> place) {
  Pack<T, kWidth> x = load(row, place);
#pragma unroll
  for (int i = 0; i < kWidth; ++i)
    if (!place.has(i)) x[i] = -std::numeric_limits<T>::infinity();
  return x;
}

/// Overwrites a row by softmax - onehot; `at_label` is what is subtracted.
template <class T, int kWidth>
__device__ void write_gradient(T* row, std::int64_t n, const RunningSoftmax<T>& softmax,
                               std::int64_t label, T at_label) {
  const T inverse = 1 / softmax.sum;
  for_packs_of_row<kWidth>(n, pack_shift<kWidth>(row), [&](PackPlace<kWidth> place) {
    Pack<T, kWidth> x = load(row, place);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      x[i] = softmax.weight(x[i], inverse);
      if (place.first + i == label) x[i] -= at_label;
    }
    store(x, row, place);
  });
}

template <class T, int kWidth>
__device__ void write_zeros(T* row, std::int64_t n) {
  for_packs_of_row<kWidth>(n, pack_shift<kWidth>(row),
                           [&](PackPlace<kWidth> place) { store(Pack<T, kWidth>(), row, place); });
}

template <class T, int kWidth>
__global__ void __launch_bounds__(most_in_team) cross_entropy_kernel(CrossEntropyArguments<T> p) {
  const std::int64_t r = row_of_team();
  const bool exists = r < p.n_rows;
  T* const row = p.logits + r * p.n;
  const std::int64_t label = exists ? p.labels[r] : ignored_label;
  const T logit = label == ignored_label ? T{0} : row[label];
  RunningSoftmax<T> softmax;
  FirstLargest<T> first;
  for_packs_of_row<kWidth>(exists ? p.n : 0, pack_shift<kWidth>(row), [&](PackPlace<kWidth> place) {
    const Pack<T, kWidth> x = load_logits(row, place);
    softmax.add(x);
    first.add(place, x);
  });
  softmax.combine_team();  // after which no thread needs logits[label] any more
  const std::int64_t prediction = first.combine_team(softmax.largest);
  if (!exists) return;
  const double loss = log(static_cast<double>(softmax.sum)) +
                      (static_cast<double>(softmax.largest) - static_cast<double>(logit));
  if (threadIdx.x == 0) {
    p.losses[r] = label == ignored_label ? 0 : loss;
    p.predictions[r] = prediction;
  }
  if (label == ignored_label)
    write_zeros<T, kWidth>(row, p.n);
  else
    write_gradient<T, kWidth>(row, p.n, softmax, label,
                              isfinite(loss) ? T{1} : std::numeric_limits<T>::quiet_NaN());
}

/// One block.
__global__ void __launch_bounds__(most_in_team)
    count_correct_kernel(const std::int64_t* predictions, const std::int64_t* labels,
                         const std::uint8_t* scored, std::int64_t n, double* count) {
  std::int64_t correct = 0;
  for (std::int64_t r = threadIdx.x; r < n; r += blockDim.x)
    correct += scored[r] != 0 && predictions[r] == labels[r];
  correct = block_sum(correct);
  if (threadIdx.x == 0) *count = static_cast<double>(correct);
}

class CudaLoss final : public LossKernels {
 public:
  void cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& losses,
                     const Tensor& predictions) override {
    dispatch_real("cross_entropy", logits.dtype(), [&]<class T>(TypeTag<T>) {
      const CrossEntropyArguments<T> p{logits.data<T>(),      LabelArray(labels),
                                       logits.size(0),        logits.size(1),
                                       losses.data<double>(), predictions.data<std::int64_t>()};
      constexpr int width = pack_width<T>;
      launch(cross_entropy_kernel<T, width>, for_teams(p.n_rows, ceil_div(p.n, width)), p);
    });
  }

  void count_correct(const Tensor& predictions, const Tensor& labels, const Tensor& scored,
                     const Tensor& count) override {
    launch(count_correct_kernel, {.grid = dim3(1), .block = dim3(most_in_team)},
           predictions.data<std::int64_t>(), labels.data<std::int64_t>(),
           scored.data<std::uint8_t>(), predictions.numel(), count.data<double>());
  }
};

}  // namespace
}  // namespace cuda

LossKernels& cuda_loss_kernels() { return only<cuda::CudaLoss>(); }

}  // namespace mobius
