// Vectors as directions and lengths, and Gaussians as points: one pass over the rows each way.
// Buffers: outputs are dense and overwritten (=); rows of x lie anywhere, each dense.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/points.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "core/cpu/kernels.h"
#include "core/cpu/rotations.h"
#include "core/cpu/rows.h"
#include "core/cpu/simd/math-inl.h"
#include "core/cpu/simd/vectors-inl.h"
#include "core/ops/points.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

/// y = a x + b z; z may be null where b is 0.
template <class T>
void scaled_sum(T a, const T* x, T b, const T* z, std::int64_t n, T* y) {
  for_vectors<T>(n, [&](auto d, auto memory, std::int64_t j) HWY_ATTR {
    const auto scaled = hn::Mul(hn::Set(d, a), memory.load(x + j));
    memory.store(z ? hn::MulAdd(hn::Set(d, b), memory.load(z + j), scaled) : scaled, y + j);
  });
}

/// A rotation of x moves its direction, at the rate 1 / length; a stretch changes only its length.
/// Below least_length the direction is x / least_length, a linear function.
template <class T>
void polar_backward_row(const T* direction, T length, const T* grad_direction, T grad_length,
                        std::int64_t n, T* grad_x) {
  const auto least = static_cast<T>(least_length);
  const T inverse = 1 / std::max(length, least);
  T along = length < least ? (length > 0 ? grad_length * least / length : T{0}) : grad_length;
  if (!grad_direction) {
    scaled_sum<T>(along, direction, T{0}, nullptr, n, grad_x);
    return;
  }
  if (length >= least) along -= inverse * dot_rows(grad_direction, direction, n);
  scaled_sum(inverse, grad_direction, along, direction, n, grad_x);
}

// ---- Gaussians as points of Wasserstein-2 space: a row is [mu ; raw] or [R mu ; sigma], d
// elements each

/// y = R x for one row; R is the identity without a table of rotations.
template <class T>
void rotate_or_copy(const T* x, const Rotations<T>* rotations, std::int64_t position,
                    std::int64_t d, T* y) {
  if (!rotations) {
    std::copy_n(x, d, y);
    return;
  }
  const std::int64_t half = d / 2;
  rotate_row(x, rotations->cosines.data() + position * half,
             rotations->sines.data() + position * half, half, y);
}

/// Returns the squared length of the point.
template <class T>
T gaussian_row(const T* row, const Rotations<T>* rotations, std::int64_t position, T least_sigma,
               std::int64_t d, T* point) {
  rotate_or_copy(row, rotations, position, d, point);
  for_vectors<T>(d, [&](auto lanes, auto memory, std::int64_t j) HWY_ATTR {
    const auto sigma =
        hn::Add(softplus(lanes, memory.load(row + d + j)), hn::Set(lanes, least_sigma));
    memory.store(sigma, point + d + j);
  });
  return dot_rows(point, point, 2 * d);
}

/// The gradient of one row from that of its point (null: 0), to which `radial` times the point is
/// added when kRadial. The point's mean is R mu: rotated back, it is mu.
template <bool kRadial, class T>
void gaussian_backward_row(const T* row, const T* point, const T* grad_point, T radial,
                           const Rotations<T>* inverse, std::int64_t position, std::int64_t d,
                           T* grad) {
  if (grad_point) {
    rotate_or_copy(grad_point, inverse, position, d, grad);
    std::copy_n(grad_point + d, d, grad + d);
  } else {
    std::fill(grad, grad + 2 * d, T{0});
  }
  for_vectors<T>(d, [&](auto lanes, auto memory, std::int64_t j) HWY_ATTR {
    auto grad_sigma = memory.load(grad + d + j);
    if constexpr (kRadial) {
      const auto pull = hn::Set(lanes, radial);
      memory.store(hn::MulAdd(pull, memory.load(row + j), memory.load(grad + j)), grad + j);
      grad_sigma = hn::MulAdd(pull, memory.load(point + d + j), grad_sigma);
    }
    const auto slope = logistic(lanes, memory.load(row + d + j)).value;
    memory.store(hn::Mul(grad_sigma, slope), grad + d + j);
  });
}

// ---- kernels

class CpuPoints final : public PointsKernels {
 public:
  void polar(const Tensor& x, const Tensor& direction, const Tensor& length) override {
    assert(x.numel() == 0 || x.stride(-1) == 1 || x.size(-1) < 2);
    dispatch_real("polar", x.dtype(), [&]<class T>(TypeTag<T>) {
      const std::vector<std::int64_t> offsets = leading_offsets(x, 2);
      const RowsOf<T> rows(x, offsets);
      T *const directions = direction.data<T>(), *const lengths = length.data<T>();
      parallel_for_each(length.numel(), row_grain(rows.width), [&](std::int64_t r) {
        const T* const row = rows.row(r);
        lengths[r] = std::sqrt(dot_rows(row, row, rows.width));
        const T inverse = 1 / std::max(lengths[r], static_cast<T>(least_length));
        scaled_sum<T>(inverse, row, T{0}, nullptr, rows.width, directions + r * rows.width);
      });
    });
  }

  void polar_backward(const Tensor& direction, const Tensor& length, const Tensor& grad_direction,
                      const Tensor& grad_length, const Tensor& grad_x) override {
    dispatch_real("polar_backward", direction.dtype(), [&]<class T>(TypeTag<T>) {
      const std::int64_t d = direction.size(-1);
      const T* const grads = grad_direction.defined() ? grad_direction.data<T>() : nullptr;
      const T* const length_grads = grad_length.defined() ? grad_length.data<T>() : nullptr;
      parallel_for_each(length.numel(), row_grain(d), [&](std::int64_t r) {
        polar_backward_row(direction.data<T>() + r * d, length.data<T>()[r],
                           grads ? grads + r * d : nullptr, length_grads ? length_grads[r] : T{0},
                           d, grad_x.data<T>() + r * d);
      });
    });
  }

  void gaussian_points(const Tensor& x, const GaussianPoints& how, const Tensor& points,
                       const Tensor& squared_length) override {
    dispatch_real("gaussian_points", x.dtype(), [&]<class T>(TypeTag<T>) {
      const std::vector<std::int64_t> offsets = leading_offsets(x, 2);
      const RowsOf<T> rows(x, offsets);
      const bool rotates = how.rope_base != 0;
      const Rotations<T> rotations(rotates ? rows.rows_each : 0, rows.width / 4, how.rope_base,
                                   how.offset, 1);
      T *const to = points.data<T>(), *const lengths = squared_length.data<T>();
      parallel_for_each(squared_length.numel(), row_grain(2 * rows.width), [&](std::int64_t r) {
        lengths[r] =
            gaussian_row(rows.row(r), rotates ? &rotations : nullptr, r % rows.rows_each,
                         static_cast<T>(how.least_sigma), rows.width / 2, to + r * rows.width);
      });
    });
  }

  void gaussian_points_backward(const Tensor& x, const GaussianPoints& how, const Tensor& points,
                                const Tensor& grad_points, const Tensor& grad_squared_length,
                                const Tensor& grad_x) override {
    dispatch_real("gaussian_points_backward", x.dtype(), [&]<class T>(TypeTag<T>) {
      const std::vector<std::int64_t> offsets = leading_offsets(x, 2);
      const RowsOf<T> rows(x, offsets);
      const std::int64_t width = rows.width;
      const bool rotates = how.rope_base != 0;
      const Rotations<T> inverse(rotates ? rows.rows_each : 0, width / 4, how.rope_base, how.offset,
                                 -1);
      const T* const from_points = grad_points.defined() ? grad_points.data<T>() : nullptr;
      const T* const from_length =
          grad_squared_length.defined() ? grad_squared_length.data<T>() : nullptr;
      parallel_for_each(
          width == 0 ? 0 : x.numel() / width, row_grain(2 * width), [&](std::int64_t r) {
            const T* const point = points.data<T>() + r * width;
            const T* const grad_point = from_points ? from_points + r * width : nullptr;
            const Rotations<T>* const back = rotates ? &inverse : nullptr;
            T* const grad = grad_x.data<T>() + r * width;
            const std::int64_t position = r % rows.rows_each;
            if (from_length) {
              gaussian_backward_row<true>(rows.row(r), point, grad_point, 2 * from_length[r], back,
                                          position, width / 2, grad);
            } else {
              gaussian_backward_row<false>(rows.row(r), point, grad_point, T{0}, back, position,
                                           width / 2, grad);
            }
          });
    });
  }
};

PointsKernels& points_kernels() { return only<CpuPoints>(); }

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(points_kernels);
PointsKernels& cpu_points_kernels() { return HWY_DYNAMIC_DISPATCH(points_kernels)(); }

}  // namespace mobius
#endif  // HWY_ONCE
