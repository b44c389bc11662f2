// Vectors as directions and lengths, and Gaussians as points: a team of threads has a row, and one
// pass over it each way. Sums of f32 run in f32. Buffers: outputs are dense and overwritten (=);
// rows of x lie anywhere, each dense.
#include "core/cuda/kernels.h"
#include "core/cuda/math.cuh"
#include "core/cuda/rotations.cuh"
#include "core/cuda/rows.cuh"
#include "core/ops/points.h"

namespace mobius {
namespace cuda {
namespace {

/// Pointers to the elements of a tensor; null if it is undefined.
template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

template <class T, int kWidth>
__device__ T dot(const Pack<T, kWidth>& a, const Pack<T, kWidth>& b) {
  T sum = 0;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sum += a[i] * b[i];
  return sum;
}

template <class T>
struct PolarArguments {
  const T* x;
  RowStarts starts;
  std::int64_t n_rows, n;
  T *direction, *length;
};

template <class T, int kWidth>
__global__ void __launch_bounds__(most_in_team) polar_kernel(PolarArguments<T> p) {
  const std::int64_t r = row_of_team();
  const bool exists = r < p.n_rows;
  const T* const x = p.x + (exists ? p.starts[r] : 0);
  const KeptRow<T, kWidth, 1> row(x, exists ? p.n : 0);
  T squares = 0;
  row.for_packs(
      [&](PackPlace<kWidth>, const Pack<T, kWidth>& pack) { squares += dot(pack, pack); });
  const T length = std::sqrt(team_sum(squares));
  const T inverse = 1 / std::fmax(length, static_cast<T>(least_length));
  row.for_packs([&](PackPlace<kWidth> place, const Pack<T, kWidth>& pack) {
    Pack<T, kWidth> unit;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) unit[i] = inverse * pack[i];
    store(unit, p.direction + r * p.n, place);
  });
  if (exists && threadIdx.x == 0) p.length[r] = length;
}

/// The gradients of the results may be null: 0.
template <class T>
struct PolarBackwardArguments {
  const T *direction, *length, *grad_direction, *grad_length;
  std::int64_t n_rows, n;
  T* grad_x;
};

/// A rotation of x moves its direction, at the rate 1 / length; a stretch changes only its length.
/// Below least_length the direction is x / least_length, a linear function.
template <class T, int kWidth>
__global__ void __launch_bounds__(most_in_team) polar_backward_kernel(PolarBackwardArguments<T> p) {
  const std::int64_t r = row_of_team(), n = r < p.n_rows ? p.n : 0;
  const KeptRow<T, kWidth, 1> direction(p.direction + r * p.n, n);
  const T* const grad_direction = p.grad_direction ? p.grad_direction + r * p.n : nullptr;
  T turned = 0;
  if (grad_direction)
    direction.for_packs([&](PackPlace<kWidth> place, const Pack<T, kWidth>& pack) {
      turned += dot(load(grad_direction, place), pack);
    });
  turned = team_sum(turned);
  if (r >= p.n_rows) return;
  const auto least = static_cast<T>(least_length);
  const T length = p.length[r], inverse = 1 / std::fmax(length, least);
  const T stretched = p.grad_length ? p.grad_length[r] : T{0};
  T along = stretched;
  if (length < least) along = length > 0 ? stretched * least / length : T{0};
  if (grad_direction && length >= least) along -= inverse * turned;
  direction.for_packs([&](PackPlace<kWidth> place, const Pack<T, kWidth>& pack) {
    const auto turn = grad_direction ? load(grad_direction, place) : Pack<T, kWidth>();
    Pack<T, kWidth> grad;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) grad[i] = std::fma(along, pack[i], inverse * turn[i]);
    store(grad, p.grad_x + r * p.n, place);
  });
}

// ---- Gaussians as points of Wasserstein-2 space: a row is [mu ; raw] or [R mu ; sigma], d
// elements each

template <class T>
struct GaussianArguments {
  const T* x;
  RowStarts starts;
  std::int64_t n_rows, n_positions, d;
  RotationTable<T> rotations;  // without data, R is the identity
  T least_sigma;
  T *points, *squared_length;
};

/// Calls f(place) for the packs of n elements of a row of T that starts at x.
template <class T, int kWidth, class F>
__device__ void for_packs_at(const T* x, std::int64_t n, F&& f) {
  for_packs_of_row<kWidth>(n, pack_shift<kWidth>(x), f);
}

/// y = R x for one row; calls f(place, y_pack) for what it stores.
template <class T, int kWidth, class F>
__device__ void rotate_or_copy(const T* x, const RotationTable<T>& rotations, std::int64_t position,
                               std::int64_t d, T* y, F&& f) {
  if (!rotations.data) {
    for_packs_at<T, kWidth>(x, d, [&](PackPlace<kWidth> place) { f(place, load(x, place), y); });
    return;
  }
  const std::int64_t half = rotations.half;
  for_packs_at<T, kWidth>(x, half, [&](PackPlace<kWidth> place) {
    Pack<T, kWidth> a = load(x, place), b = load(x + half, place);
    rotate(a, b, rotations.cosines(position, place), rotations.sines(position, place));
    f(place, a, y);
    f(place, b, y + half);
  });
}

template <class T, int kWidth>
__global__ void __launch_bounds__(most_in_team) gaussian_points_kernel(GaussianArguments<T> p) {
  const std::int64_t r = row_of_team();
  const bool exists = r < p.n_rows;
  T squares = 0;
  if (exists) {
    const T* const row = p.x + p.starts[r];
    T* const point = p.points + r * 2 * p.d;
    rotate_or_copy<T, kWidth>(row, p.rotations, r % p.n_positions, p.d, point,
                              [&](PackPlace<kWidth> place, const Pack<T, kWidth>& mean, T* to) {
                                store(mean, to, place);
                                squares += dot(mean, mean);
                              });
    for_packs_at<T, kWidth>(row + p.d, p.d, [&](PackPlace<kWidth> place) {
      Pack<T, kWidth> sigma = load(row + p.d, place);
#pragma unroll
      for (int i = 0; i < kWidth; ++i)
        sigma[i] = place.has(i) ? softplus(sigma[i]) + p.least_sigma : T{0};
      store(sigma, point + p.d, place);
      squares += dot(sigma, sigma);
    });
  }
  squares = team_sum(squares);
  if (exists && threadIdx.x == 0) p.squared_length[r] = squares;
}

/// The gradients of the results may be null: 0.
template <class T>
struct GaussianBackwardArguments {
  const T* x;
  RowStarts starts;
  std::int64_t n_rows, n_positions, d;
  RotationTable<T> back;  // the inverse rotations; without data, R is the identity
  const T *points, *grad_points, *grad_squared_length;
  T* grad_x;
};

/// The gradient of one row from that of its point, to which `radial` times the point is added. The
/// point's mean is R mu: rotated back, it is mu.
template <class T, int kWidth>
__global__ void __launch_bounds__(most_in_team)
    gaussian_points_backward_kernel(GaussianBackwardArguments<T> p) {
  using Elements = Pack<T, kWidth>;
  const std::int64_t r = row_of_team(), d = p.d;
  if (r >= p.n_rows) return;
  const T* const row = p.x + p.starts[r];
  const T* const grad_point = p.grad_points ? p.grad_points + r * 2 * d : nullptr;
  const T* const point = p.points + r * 2 * d;
  T* const grad = p.grad_x + r * 2 * d;
  const bool is_radial = p.grad_squared_length;
  const T radial = is_radial ? 2 * p.grad_squared_length[r] : T{0};

  const auto store_mean = [&](PackPlace<kWidth> place, Elements pulled, T* to) {
    const Elements mean = is_radial ? load(row + (to - grad), place) : Elements();
#pragma unroll
    for (int i = 0; i < kWidth; ++i) pulled[i] = std::fma(radial, mean[i], pulled[i]);
    store(pulled, to, place);
  };
  if (grad_point)
    rotate_or_copy<T, kWidth>(grad_point, p.back, r % p.n_positions, d, grad, store_mean);
  else
    for_packs_at<T, kWidth>(grad, d,
                            [&](PackPlace<kWidth> place) { store_mean(place, Elements(), grad); });
  for_packs_at<T, kWidth>(row + d, d, [&](PackPlace<kWidth> place) {
    Elements pulled = grad_point ? load(grad_point + d, place) : Elements();
    const Elements sigma = is_radial ? load(point + d, place) : Elements();
    const Elements raw = load(row + d, place);
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      pulled[i] = std::fma(radial, sigma[i], pulled[i]) * logistic(raw[i]).value;
    store(pulled, grad + d, place);
  });
}

// ---- launches

/// The shape for rows of n elements.
template <class T>
LaunchShape for_rows(std::int64_t n_rows, std::int64_t n) {
  return for_teams(n_rows, ceil_div(n, std::int64_t{pack_width<T>}));
}

/// Those of `how`, for rows of two times d elements; without data if it does not rotate.
template <class T>
Rotations<T> rotations_of(const Tensor& x, const GaussianPoints& how, int sign) {
  const std::int64_t n_positions = how.rope_base == 0 ? 0 : x.size(-2);
  return {n_positions, x.size(-1) / 4, how.rope_base, how.offset, sign, x.device()};
}

template <class T>
RotationTable<T> table_of(const Rotations<T>& rotations, const GaussianPoints& how) {
  return how.rope_base == 0 ? RotationTable<T>() : rotations.table();
}

class CudaPoints final : public PointsKernels {
 public:
  void polar(const Tensor& x, const Tensor& direction, const Tensor& length) override {
    dispatch_real("polar", x.dtype(), [&]<class T>(TypeTag<T>) {
      const PolarArguments<T> p{x.data<T>(), RowStarts(x),        length.numel(),
                                x.size(-1),  direction.data<T>(), length.data<T>()};
      launch(polar_kernel<T, pack_width<T>>, for_rows<T>(p.n_rows, p.n), p);
    });
  }

  void polar_backward(const Tensor& direction, const Tensor& length, const Tensor& grad_direction,
                      const Tensor& grad_length, const Tensor& grad_x) override {
    dispatch_real("polar_backward", direction.dtype(), [&]<class T>(TypeTag<T>) {
      const PolarBackwardArguments<T> p{direction.data<T>(),
                                        length.data<T>(),
                                        data_or_null<T>(grad_direction),
                                        data_or_null<T>(grad_length),
                                        length.numel(),
                                        direction.size(-1),
                                        grad_x.data<T>()};
      launch(polar_backward_kernel<T, pack_width<T>>, for_rows<T>(p.n_rows, p.n), p);
    });
  }

  void gaussian_points(const Tensor& x, const GaussianPoints& how, const Tensor& points,
                       const Tensor& squared_length) override {
    dispatch_real("gaussian_points", x.dtype(), [&]<class T>(TypeTag<T>) {
      const Rotations<T> rotations = rotations_of<T>(x, how, 1);
      const GaussianArguments<T> p{x.data<T>(),
                                   RowStarts(x),
                                   squared_length.numel(),
                                   x.size(-2),
                                   x.size(-1) / 2,
                                   table_of(rotations, how),
                                   static_cast<T>(how.least_sigma),
                                   points.data<T>(),
                                   squared_length.data<T>()};
      launch(gaussian_points_kernel<T, pack_width<T>>, for_rows<T>(p.n_rows, p.d), p);
    });
  }

  void gaussian_points_backward(const Tensor& x, const GaussianPoints& how, const Tensor& points,
                                const Tensor& grad_points, const Tensor& grad_squared_length,
                                const Tensor& grad_x) override {
    if (x.numel() == 0) return;
    dispatch_real("gaussian_points_backward", x.dtype(), [&]<class T>(TypeTag<T>) {
      const Rotations<T> rotations = rotations_of<T>(x, how, -1);
      const GaussianBackwardArguments<T> p{x.data<T>(),
                                           RowStarts(x),
                                           x.numel() / x.size(-1),
                                           x.size(-2),
                                           x.size(-1) / 2,
                                           table_of(rotations, how),
                                           points.data<T>(),
                                           data_or_null<T>(grad_points),
                                           data_or_null<T>(grad_squared_length),
                                           grad_x.data<T>()};
      launch(gaussian_points_backward_kernel<T, pack_width<T>>, for_rows<T>(p.n_rows, p.d), p);
    });
  }
};

}  // namespace
}  // namespace cuda

PointsKernels& cuda_points_kernels() { return only<cuda::CudaPoints>(); }

}  // namespace mobius
