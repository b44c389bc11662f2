// RMS and layer norm over rows, forward and backward. All arithmetic is in double, whatever the
// element type, as on the CPU: rows with a mean far from 0 lose nothing. A team of threads has a
// row and reads it once, unless it is very long.
//
// Backward: a team has a group of rows one after the other, and its threads sum their columns of
// the gradients of weight and bias in registers; a second launch adds the groups' sums up in order.
// Buffers: dense, overwritten (=).
#include <algorithm>

#include "core/cuda/kernels.h"
#include "core/cuda/rows.cuh"
#include "core/ops/norm.h"

namespace mobius {
namespace cuda {
namespace {

/// x[n_rows, n]; `bias` and `mean` are null for RMS norm.
template <class T>
struct NormArguments {
  const T *x, *weight, *bias;
  double eps;
  std::int64_t n_rows, n;
  T* y;
  double *mean, *rstd;
};

/// Packs that a thread keeps of a row.
constexpr int kept_packs = 4;

template <class T, int kWidth>
__global__ void __launch_bounds__(most_in_team) norm_kernel(NormArguments<T> p) {
  const std::int64_t r = row_of_team(), n = r < p.n_rows ? p.n : 0;
  const double count = static_cast<double>(p.n);
  const KeptRow<T, kWidth, kept_packs> row(n > 0 ? p.x + r * n : p.x, n);
  const double mean = p.mean ? row.sum([](double x) { return x; }) / count : 0;
  const double squares = row.sum([&](double x) { return (x - mean) * (x - mean); });
  const double rstd = 1 / sqrt(squares / count + p.eps);
  if (r >= p.n_rows) return;
  row.for_packs([&](PackPlace<kWidth> place, const Pack<T, kWidth>& x) {
    const auto weight = load(p.weight, place);
    const auto bias = p.bias ? load(p.bias, place) : Pack<T, kWidth>();
    Pack<T, kWidth> y;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const double normal = (static_cast<double>(x[i]) - mean) * rstd;
      y[i] =
          static_cast<T>(fma(normal, static_cast<double>(weight[i]), static_cast<double>(bias[i])));
    }
    store(y, p.y + r * p.n, place);
  });
  if (threadIdx.x != 0) return;
  if (p.mean) p.mean[r] = mean;
  p.rstd[r] = rstd;
}

// ---- backward: with h = (x - mean) rstd and g = grad_y weight,
//   grad_x = rstd (g - mean(g) - h mean(g h)),  the term mean(g) only if the row was centred.

/// The means of g and of g h in a row.
struct RowMeans {
  double g, gh;
};

/// x[n_rows, n] in groups of rows; `mean` is null for RMS norm. grad_weight and grad_bias are
/// partial[0] and partial[1] of each group: partial[2, n_groups, n].
template <class T>
struct NormBackwardArguments {
  const T *x, *weight, *grad_y;
  const double *mean, *rstd;
  T* grad_x;
  std::int64_t n_rows, n;
  std::int64_t group_size = 1, n_groups = 0;
  const RowMeans* means = nullptr;  // of each row; null where a team sees the whole row
  double* partial = nullptr;
};

/// Calls f(i, h, dy, g) for the elements of a pack.
template <class T, int kWidth, class F>
__device__ void for_terms(const Pack<T, kWidth>& x, const Pack<T, kWidth>& grad_y,
                          const Pack<T, kWidth>& weight, double mean, double rstd, F&& f) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const double dy = static_cast<double>(grad_y[i]);
    f(i, (static_cast<double>(x[i]) - mean) * rstd, dy, dy * static_cast<double>(weight[i]));
  }
}

/// The means of rows that are longer than a team sees at a time.
template <class T, int kWidth>
__global__ void __launch_bounds__(most_in_team)
    norm_row_means_kernel(NormBackwardArguments<T> p, RowMeans* means) {
  const std::int64_t r = row_of_team();
  const bool exists = r < p.n_rows;
  const double mean = exists && p.mean ? p.mean[r] : 0, rstd = exists ? p.rstd[r] : 0;
  double sum_g = 0, sum_gh = 0;
  for_packs_of_row<kWidth>(exists ? p.n : 0, 0, [&](PackPlace<kWidth> place) {
    for_terms<T, kWidth>(load(p.x + r * p.n, place), load(p.grad_y + r * p.n, place),
                         load(p.weight, place), mean, rstd, [&](int, double h, double, double g) {
                           sum_g += g;
                           sum_gh = fma(g, h, sum_gh);
                         });
  });
  sum_g = team_sum(sum_g);
  sum_gh = team_sum(sum_gh);
  const double count = static_cast<double>(p.n);
  if (exists && threadIdx.x == 0) means[r] = {sum_g / count, sum_gh / count};
}

/// Packs of columns that a thread has.
constexpr int column_packs = 2;

/// The gradient of a group of rows; blockIdx.y has a tile of the columns.
template <class T, int kWidth>
class NormBackwardTeam {
 public:
  using Columns = Pack<T, kWidth>;

  __device__ explicit NormBackwardTeam(const NormBackwardArguments<T>& arguments) : p_(arguments) {
#pragma unroll
    for (int k = 0; k < column_packs; ++k)
      if (!place(k).is_empty()) weight_[k] = load(p_.weight, place(k));
  }

  /// All teams of a block take the same number of steps, because they sum together.
  __device__ void run() {
    const std::int64_t group = row_of_team(), begin = group * p_.group_size;
    for (std::int64_t r = begin; r < begin + p_.group_size; ++r) add_row(r, r < p_.n_rows);
    if (group >= p_.n_groups) return;
#pragma unroll
    for (int k = 0; k < column_packs; ++k) {
      if (place(k).is_empty()) continue;
      store(grad_weight_[k], p_.partial + group * p_.n, place(k));
      if (p_.mean) store(grad_bias_[k], p_.partial + (p_.n_groups + group) * p_.n, place(k));
    }
  }

 private:
  __device__ PackPlace<kWidth> place(int k) const {
    const std::int64_t pack = (std::int64_t{blockIdx.y} * column_packs + k) * blockDim.x;
    return {(pack + threadIdx.x) * kWidth, p_.n};
  }

  __device__ void add_row(std::int64_t r, bool exists) {
    const double mean = exists && p_.mean ? p_.mean[r] : 0, rstd = exists ? p_.rstd[r] : 0;
    Columns x[column_packs], grad_y[column_packs];
#pragma unroll
    for (int k = 0; k < column_packs; ++k) {
      if (!exists || place(k).is_empty()) continue;
      x[k] = load(p_.x + r * p_.n, place(k));
      grad_y[k] = load(p_.grad_y + r * p_.n, place(k));
    }
    RowMeans means = add_parameter_gradients(x, grad_y, mean, rstd);
    if (p_.means) means = p_.means[exists ? r : 0];
    if (!exists) return;
    if (!p_.mean) means.g = 0;
#pragma unroll
    for (int k = 0; k < column_packs; ++k) {
      if (place(k).is_empty()) continue;
      Columns grad_x;
      for_terms<T, kWidth>(x[k], grad_y[k], weight_[k], mean, rstd,
                           [&](int i, double h, double, double g) {
                             grad_x[i] = static_cast<T>(rstd * fma(-h, means.gh, g - means.g));
                           });
      store(grad_x, p_.grad_x + r * p_.n, place(k));
    }
  }

  /// Elements past the end of the row are 0 in grad_y, and so in every sum.
  __device__ RowMeans add_parameter_gradients(const Columns* x, const Columns* grad_y, double mean,
                                              double rstd) {
    double sum_g = 0, sum_gh = 0;
#pragma unroll
    for (int k = 0; k < column_packs; ++k)
      for_terms<T, kWidth>(x[k], grad_y[k], weight_[k], mean, rstd,
                           [&](int i, double h, double dy, double g) {
                             grad_weight_[k][i] = fma(dy, h, grad_weight_[k][i]);
                             grad_bias_[k][i] += dy;
                             sum_g += g;
                             sum_gh = fma(g, h, sum_gh);
                           });
    if (p_.means) return {};
    const double count = static_cast<double>(p_.n);
    if (p_.mean) sum_g = team_sum(sum_g);
    return {sum_g / count, team_sum(sum_gh) / count};
  }

  const NormBackwardArguments<T>& p_;
  Columns weight_[column_packs];
  Pack<double, kWidth> grad_weight_[column_packs], grad_bias_[column_packs];
};

template <class T, int kWidth>
__global__ void __launch_bounds__(most_in_team) norm_backward_kernel(NormBackwardArguments<T> p) {
  NormBackwardTeam<T, kWidth>(p).run();
}

constexpr int sum_columns = 32, sum_parts = 16;

/// The sums of the groups, of 32 columns a block: each of 16 warps has every 16th group.
template <class T>
__global__ void sum_groups_kernel(const double* partial, std::int64_t n_groups, std::int64_t n,
                                  T* weight, T* bias) {
  __shared__ double sums[sum_parts][sum_columns];
  const std::int64_t column = std::int64_t{blockIdx.x} * sum_columns + threadIdx.x;
  partial += blockIdx.y * n_groups * n;
  double sum = 0;
  if (column < n)
    for (std::int64_t i = threadIdx.y; i < n_groups; i += sum_parts) sum += partial[i * n + column];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= n) return;
  for (int i = 1; i < sum_parts; ++i) sum += sums[i][threadIdx.x];
  (blockIdx.y == 0 ? weight : bias)[column] = static_cast<T>(sum);
}

// ---- launches

template <class T>
void norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
          const NormResult& result) {
  const NormArguments<T> p{x.data<T>(),
                           weight.data<T>(),
                           bias.defined() ? bias.data<T>() : nullptr,
                           eps,
                           x.size(0),
                           x.size(1),
                           result.y.data<T>(),
                           bias.defined() ? result.mean.data<double>() : nullptr,
                           result.rstd.data<double>()};
  constexpr int width = pack_width<T>;
  launch(norm_kernel<T, width>,
         for_teams(p.n_rows, ceil_div(p.n, std::int64_t{width * kept_packs})), p);
}

/// Groups enough to fill a device, whatever the length of a row.
std::int64_t groups_wanted(const LaunchShape& shape) {
  constexpr std::int64_t blocks = 512;
  return blocks * shape.block.y;
}

template <class T>
void norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                   const Tensor& grad_y, const NormGrads& grads) {
  constexpr int width = pack_width<T>;
  NormBackwardArguments<T> p{.x = x.data<T>(),
                             .weight = weight.data<T>(),
                             .grad_y = grad_y.data<T>(),
                             .mean = mean.defined() ? mean.data<double>() : nullptr,
                             .rstd = rstd.data<double>(),
                             .grad_x = grads.x.data<T>(),
                             .n_rows = x.size(0),
                             .n = x.size(1)};
  const std::int64_t items = ceil_div(p.n, std::int64_t{width * column_packs});
  p.group_size =
      std::max<std::int64_t>(1, ceil_div(p.n_rows, groups_wanted(for_teams(p.n_rows, items))));
  p.n_groups = ceil_div(p.n_rows, p.group_size);
  const Tensor partial = Tensor::empty({2, p.n_groups, p.n}, DType::f64, x.device());
  p.partial = partial.data<double>();

  LaunchShape shape = for_teams(p.n_groups, items);
  shape.grid.y = static_cast<unsigned>(ceil_div<std::int64_t>(items, shape.block.x));
  Tensor means;
  if (shape.grid.y > 1) {
    means = Tensor::empty({p.n_rows, 2}, DType::f64, x.device());
    auto* const of_rows = reinterpret_cast<RowMeans*>(means.data<double>());
    launch(norm_row_means_kernel<T, width>, for_teams(p.n_rows, items), p, of_rows);
    p.means = of_rows;
  }
  launch(norm_backward_kernel<T, width>, shape, p);
  const unsigned n_parameters = p.mean ? 2 : 1;
  launch(
      sum_groups_kernel<T>,
      {.grid = dim3(static_cast<unsigned>(ceil_div(p.n, std::int64_t{sum_columns})), n_parameters),
       .block = dim3(sum_columns, sum_parts)},
      p.partial, p.n_groups, p.n, grads.weight.data<T>(), p.mean ? grads.bias.data<T>() : nullptr);
}

class CudaNorm final : public NormKernels {
 public:
  void norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
            const NormResult& result) override {
    dispatch_real("norm", x.dtype(),
                  [&]<class T>(TypeTag<T>) { cuda::norm<T>(x, weight, bias, eps, result); });
  }
  void norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                     const Tensor& grad_y, const NormGrads& grads) override {
    dispatch_real("norm_backward", x.dtype(), [&]<class T>(TypeTag<T>) {
      cuda::norm_backward<T>(x, weight, mean, rstd, grad_y, grads);
    });
  }
};

}  // namespace
}  // namespace cuda

NormKernels& cuda_norm_kernels() { return only<cuda::CudaNorm>(); }

}  // namespace mobius
