// Vectors as directions and lengths: one pass over the rows each way.
// Buffers: outputs are dense and overwritten (=); rows of x lie anywhere, each dense.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/points.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/rows.h"
#include "core/cpu/simd/vectors-inl.h"
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

template <class T>
void polar_rows(const RowsOf<T>& x, T* direction, T* length, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const T* const row = x.row(r);
    length[r] = std::sqrt(dot_rows(row, row, x.width));
    const T inverse = 1 / std::max(length[r], static_cast<T>(least_length));
    scaled_sum<T>(inverse, row, T{0}, nullptr, x.width, direction + r * x.width);
  }
}

/// Turning x moves its direction, at 1 / length, stretching it its length alone; below least_length
/// the direction is x / least_length, a linear function.
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

void polar_chunk(const Tensor& x, const std::vector<std::int64_t>& offsets, const Tensor& direction,
                 const Tensor& length, std::int64_t begin, std::int64_t end) {
  dispatch_real("polar", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    polar_rows(RowsOf<T>(x, offsets), direction.data<T>(), length.data<T>(), begin, end);
  });
}

void polar_backward_chunk(const Tensor& direction, const Tensor& length,
                          const Tensor& grad_direction, const Tensor& grad_length,
                          const Tensor& grad_x, std::int64_t begin, std::int64_t end) {
  dispatch_real("polar_backward", direction.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t d = direction.size(-1);
    const T* const grads = grad_direction.defined() ? grad_direction.data<T>() : nullptr;
    for (std::int64_t r = begin; r < end; ++r) {
      const T grad = grad_length.defined() ? grad_length.data<T>()[r] : T{0};
      polar_backward_row(direction.data<T>() + r * d, length.data<T>()[r],
                         grads ? grads + r * d : nullptr, grad, d, grad_x.data<T>() + r * d);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(polar_chunk);
HWY_EXPORT(polar_backward_chunk);

void CpuBackend::polar(const Tensor& x, const Tensor& direction, const Tensor& length) {
  assert(x.numel() == 0 || x.stride(-1) == 1 || x.size(-1) < 2);
  const std::vector<std::int64_t> offsets = leading_offsets(x, 2);
  parallel_for(length.numel(), row_grain(x.size(-1)), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(polar_chunk)(x, offsets, direction, length, begin, end);
  });
}

void CpuBackend::polar_backward(const Tensor& direction, const Tensor& length,
                                const Tensor& grad_direction, const Tensor& grad_length,
                                const Tensor& grad_x) {
  parallel_for(length.numel(), row_grain(direction.size(-1)),
               [&](std::int64_t begin, std::int64_t end) {
                 HWY_DYNAMIC_DISPATCH(polar_backward_chunk)
                 (direction, length, grad_direction, grad_length, grad_x, begin, end);
               });
}

}  // namespace mobius
#endif  // HWY_ONCE
