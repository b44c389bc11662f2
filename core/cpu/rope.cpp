// Rotary position embedding: each row of x is rotated pairwise by cosines and sines from a table
// made once per call, from angles in double (positions run into the thousands of turns).
// Buffers: y is dense and overwritten (=); rows of x lie anywhere, each dense.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/rope.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <cassert>
#include <cmath>
#include <vector>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/rows.h"
#include "core/cpu/vectors-inl.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

// (y_t, y_{t+half}) = rotation by angle t of (x_t, x_{t+half}).
template <class T>
void rotate_row(const T* x, const T* cosines, const T* sines, std::int64_t half, T* y) {
  for_vectors<T>(half, [&](auto, auto memory, std::int64_t t) HWY_ATTR {
    const auto a = memory.load(x + t), b = memory.load(x + half + t);
    const auto c = memory.load(cosines + t), s = memory.load(sines + t);
    memory.store(hn::MulSub(a, c, hn::Mul(b, s)), y + t);
    memory.store(hn::MulAdd(a, s, hn::Mul(b, c)), y + half + t);
  });
}

void rotate_row_f32(const float* x, const float* cosines, const float* sines, std::int64_t half,
                    float* y) {
  rotate_row(x, cosines, sines, half, y);
}
void rotate_row_f64(const double* x, const double* cosines, const double* sines, std::int64_t half,
                    double* y) {
  rotate_row(x, cosines, sines, half, y);
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(rotate_row_f32);
HWY_EXPORT(rotate_row_f64);

namespace {

void rotate(const float* x, const float* cosines, const float* sines, std::int64_t half, float* y) {
  HWY_DYNAMIC_DISPATCH(rotate_row_f32)(x, cosines, sines, half, y);
}
void rotate(const double* x, const double* cosines, const double* sines, std::int64_t half,
            double* y) {
  HWY_DYNAMIC_DISPATCH(rotate_row_f64)(x, cosines, sines, half, y);
}

// [n, half] cosines and sines of sign * position * base^(-t / half), position = offset + row.
template <class T>
struct Rotations {
  std::vector<T> cosines, sines;

  Rotations(std::int64_t n, std::int64_t half, double base, std::int64_t offset, int sign)
      : cosines(static_cast<std::size_t>(n * half)), sines(cosines.size()) {
    std::vector<double> frequencies(static_cast<std::size_t>(half));
    for (std::size_t t = 0; t < frequencies.size(); ++t)
      frequencies[t] = std::pow(base, -static_cast<double>(t) / static_cast<double>(half));
    // A cosine costs as much as some tens of elements of an ordinary pass.
    parallel_for(n, row_grain(32 * half), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        for (std::size_t t = 0; t < frequencies.size(); ++t) {
          const double angle = sign * static_cast<double>(offset + i) * frequencies[t];
          const std::size_t at = static_cast<std::size_t>(i * half) + t;
          cosines[at] = static_cast<T>(std::cos(angle));
          sines[at] = static_cast<T>(std::sin(angle));
        }
      }
    });
  }
};

}  // namespace

void CpuBackend::rope(const Tensor& x, double base, std::int64_t offset, int sign,
                      const Tensor& y) {
  assert(x.size(-1) % 2 == 0 && (x.stride(-1) == 1 || x.size(-1) < 2));
  if (x.numel() == 0) return;
  const std::int64_t n = x.size(-2), d = x.size(-1), half = d / 2, stride = x.stride(-2);
  const std::vector<std::int64_t> offsets = leading_offsets(x, 2);
  dispatch_real("rope", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rotations<T> rotations(n, half, base, offset, sign);
    const T* const from = x.data<T>();
    T* const to = y.data<T>();
    parallel_for(x.numel() / d, row_grain(d), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t i = row % n, at = offsets[static_cast<std::size_t>(row / n)];
        rotate(from + at + i * stride, &rotations.cosines[static_cast<std::size_t>(i * half)],
               &rotations.sines[static_cast<std::size_t>(i * half)], half, to + row * d);
      }
    });
  });
}

}  // namespace mobius
#endif  // HWY_ONCE
