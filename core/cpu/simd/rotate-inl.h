// The rotary position embedding of one row.
//
// Included once per instruction set (Highway's convention for -inl.h files).
#if defined(MOBIUS_CORE_CPU_ROTATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOBIUS_CORE_CPU_ROTATE_INL_H_
#undef MOBIUS_CORE_CPU_ROTATE_INL_H_
#else
#define MOBIUS_CORE_CPU_ROTATE_INL_H_
#endif

#include "core/cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

/// (y_t, y_{t+half}) = rotation by angle t of (x_t, x_{t+half}).
template <class T>
void rotate_row(const T* x, const T* cosines, const T* sines, std::int64_t half, T* y) {
  for_vectors<T>(half, [&](auto, auto memory, std::int64_t t) HWY_ATTR {
    const auto a = memory.load(x + t), b = memory.load(x + half + t);
    const auto c = memory.load(cosines + t), s = memory.load(sines + t);
    memory.store(hn::MulSub(a, c, hn::Mul(b, s)), y + t);
    memory.store(hn::MulAdd(a, s, hn::Mul(b, c)), y + half + t);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#endif  // MOBIUS_CORE_CPU_ROTATE_INL_H_
