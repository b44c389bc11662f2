// A loop over whole vectors with a masked tail.
//
// Included once per instruction set (Highway's convention for -inl.h files).
#if defined(MOBIUS_CORE_CPU_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOBIUS_CORE_CPU_VECTORS_INL_H_
#undef MOBIUS_CORE_CPU_VECTORS_INL_H_
#else
#define MOBIUS_CORE_CPU_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Accesses a whole vector.
template <class D>
struct WholeAccess {
  D d;
  template <class T>
  HWY_INLINE hn::Vec<D> load(const T* from) const {
    return hn::LoadU(d, from);
  }
  template <class T>
  HWY_INLINE void store(hn::Vec<D> value, T* to) const {
    hn::StoreU(value, d, to);
  }
};

/// Accesses only the lanes of the mask: the others read as 0 and are not written.
template <class D>
struct TailAccess {
  D d;
  hn::Mask<D> mask;
  template <class T>
  HWY_INLINE hn::Vec<D> load(const T* from) const {
    return hn::MaskedLoad(mask, d, from);
  }
  template <class T>
  HWY_INLINE void store(hn::Vec<D> value, T* to) const {
    hn::BlendedStore(value, mask, d, to);
  }
};

/// Calls body(d, access, i) for each vector of elements i, i + 1, ... of [0, n).
template <class T, class Body>
HWY_INLINE void for_vectors(std::int64_t n, const Body& body) {
  const hn::ScalableTag<T> d;
  using D = decltype(d);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(d, WholeAccess<std::remove_const_t<D>>{d}, i);
  if (i == n) return;
  const auto tail = hn::FirstN(d, static_cast<std::size_t>(n - i));
  body(d, TailAccess<std::remove_const_t<D>>{d, tail}, i);
}

/// <x, y> of n elements.
template <class T>
T dot_rows(const T* x, const T* y, std::int64_t n) {
  const hn::ScalableTag<T> lanes;
  auto sum = hn::Zero(lanes);
  for_vectors<T>(n, [&](auto, auto memory, std::int64_t i) HWY_ATTR {
    sum = hn::MulAdd(memory.load(x + i), memory.load(y + i), sum);
  });
  return hn::GetLane(hn::SumOfLanes(lanes, sum));
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#endif  // MOBIUS_CORE_CPU_VECTORS_INL_H_
