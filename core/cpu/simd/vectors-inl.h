// A loop over the whole vectors of a row and a masked tail.
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
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Accesses a whole vector of D. Converts elements of another type: floats to a vector of double
/// and back.
template <class D>
struct WholeAccess {
  D d;

  template <class T>
  HWY_INLINE hn::Vec<D> load(const T* from) const {
    if constexpr (std::is_same_v<T, hn::TFromD<D>>)
      return hn::LoadU(d, from);
    else
      return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), from));
  }
  template <class T>
  HWY_INLINE void store(hn::Vec<D> value, T* to) const {
    if constexpr (std::is_same_v<T, hn::TFromD<D>>)
      hn::StoreU(value, d, to);
    else
      hn::StoreU(hn::DemoteTo(hn::Rebind<T, D>(), value), hn::Rebind<T, D>(), to);
  }
  /// x in the lanes that memory has, 0 or `other` in the rest.
  HWY_INLINE hn::Vec<D> or_zero(hn::Vec<D> x) const { return x; }
  HWY_INLINE hn::Vec<D> or_else(hn::Vec<D> x, hn::Vec<D> /*other*/) const { return x; }
};

/// Accesses only the first n lanes: the others read as 0 and are not written.
template <class D>
struct TailAccess {
  D d;
  std::size_t n;

  template <class T>
  HWY_INLINE hn::Vec<D> load(const T* from) const {
    const hn::Rebind<T, D> dt;
    const auto values = hn::MaskedLoad(hn::FirstN(dt, n), dt, from);
    if constexpr (std::is_same_v<T, hn::TFromD<D>>)
      return values;
    else
      return hn::PromoteTo(d, values);
  }
  template <class T>
  HWY_INLINE void store(hn::Vec<D> value, T* to) const {
    const hn::Rebind<T, D> dt;
    if constexpr (std::is_same_v<T, hn::TFromD<D>>)
      hn::BlendedStore(value, hn::FirstN(dt, n), dt, to);
    else
      hn::BlendedStore(hn::DemoteTo(dt, value), hn::FirstN(dt, n), dt, to);
  }
  HWY_INLINE hn::Vec<D> or_zero(hn::Vec<D> x) const {
    return hn::IfThenElseZero(hn::FirstN(d, n), x);
  }
  HWY_INLINE hn::Vec<D> or_else(hn::Vec<D> x, hn::Vec<D> other) const {
    return hn::IfThenElse(hn::FirstN(d, n), x, other);
  }
};

/// Calls body(d, access, i) for each vector of elements i, i + 1, ... of [0, n). `access` loads and
/// stores the elements of the vector.
template <class T, class Body>
HWY_INLINE void for_vectors(std::int64_t n, const Body& body) {
  using D = hn::ScalableTag<T>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(D(), WholeAccess<D>{}, i);
  if (i < n) body(D(), TailAccess<D>{D(), static_cast<std::size_t>(n - i)}, i);
}

/// Load and store the first 0 < n <= Lanes(d) elements of a vector; the others read as 0.
template <class D>
HWY_INLINE hn::Vec<D> load_first(D d, const hn::TFromD<D>* from, std::size_t n) {
  return n == hn::Lanes(d) ? hn::LoadU(d, from) : hn::MaskedLoad(hn::FirstN(d, n), d, from);
}
template <class D>
HWY_INLINE void store_first(hn::Vec<D> value, D d, hn::TFromD<D>* to, std::size_t n) {
  if (n == hn::Lanes(d))
    hn::StoreU(value, d, to);
  else
    hn::BlendedStore(value, hn::FirstN(d, n), d, to);
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

#endif  // MOBIUS_CORE_CPU_VECTORS_INL_H_
