// The three passes of a softmax over one row, on Highway vectors.
//
// Included once per instruction set (Highway's convention for -inl.h files).
#if defined(MOBIUS_CORE_CPU_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOBIUS_CORE_CPU_SOFTMAX_INL_H_
#undef MOBIUS_CORE_CPU_SOFTMAX_INL_H_
#else
#define MOBIUS_CORE_CPU_SOFTMAX_INL_H_
#endif

#include <cstdint>

#include "core/cpu/simd/math-inl.h"
#include "core/cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

// max_j scale * scores[j]; -inf when n = 0.
template <class T>
T largest_scaled(const T* scores, std::int64_t n, T scale) {
  const hn::ScalableTag<T> lanes;
  const auto factor = hn::Set(lanes, scale), lowest = hn::Neg(infinity(lanes));
  auto largest = lowest;
  for_vectors<T>(n, [&](auto, auto memory, std::int64_t j) HWY_ATTR {
    const auto scaled = hn::Mul(memory.load(scores + j), factor);
    largest = hn::Max(largest, memory.or_else(scaled, lowest));
  });
  return hn::GetLane(hn::MaxOfLanes(lanes, largest));
}

// out[j] = e^(scale * scores[j] - shift); returns their sum.
template <class T>
T exponentials(const T* scores, std::int64_t n, T scale, T shift, T* out) {
  const hn::ScalableTag<T> lanes;
  const auto factor = hn::Set(lanes, scale), offset = hn::Set(lanes, shift);
  auto sum = hn::Zero(lanes);
  for_vectors<T>(n, [&](auto d, auto memory, std::int64_t j) HWY_ATTR {
    const auto e = exp(d, hn::MulSub(memory.load(scores + j), factor, offset));
    memory.store(e, out + j);
    sum = hn::Add(sum, memory.or_zero(e));
  });
  return hn::GetLane(hn::SumOfLanes(lanes, sum));
}

template <class T>
void scale_row(T* row, std::int64_t n, T scale) {
  for_vectors<T>(n, [&](auto d, auto memory, std::int64_t j) HWY_ATTR {
    memory.store(hn::Mul(memory.load(row + j), hn::Set(d, scale)), row + j);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#endif  // MOBIUS_CORE_CPU_SOFTMAX_INL_H_
