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
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale), lowest = hn::Neg(infinity(d));
  auto largest = lowest;
  std::int64_t j = 0;
  for (; j + lanes <= n; j += lanes)
    largest = hn::Max(largest, hn::Mul(hn::LoadU(d, scores + j), factor));
  if (j < n) {
    const auto tail = hn::FirstN(d, static_cast<std::size_t>(n - j));
    const auto last = hn::Mul(hn::MaskedLoad(tail, d, scores + j), factor);
    largest = hn::Max(largest, hn::IfThenElse(tail, last, lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

// out[j] = e^(scale * scores[j] - shift); returns their sum.
template <class T>
T exponentials(const T* scores, std::int64_t n, T scale, T shift, T* out) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale), offset = hn::Set(d, shift);
  auto sum = hn::Zero(d);
  std::int64_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    const auto e = exp(d, hn::MulSub(hn::LoadU(d, scores + j), factor, offset));
    hn::StoreU(e, d, out + j);
    sum = hn::Add(sum, e);
  }
  if (j < n) {
    const auto tail = hn::FirstN(d, static_cast<std::size_t>(n - j));
    const auto e = exp(d, hn::MulSub(hn::MaskedLoad(tail, d, scores + j), factor, offset));
    hn::BlendedStore(e, tail, d, out + j);
    sum = hn::Add(sum, hn::IfThenElseZero(tail, e));
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
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
