// One row of one tile of the attention kernel: from the products <q_i, k_j> to weights, and back.
// `Map` is a score map (core/score_maps/), instantiated here over vectors.
//
// Included once per instruction set, between HWY_BEFORE_NAMESPACE() and HWY_AFTER_NAMESPACE() of
// its own (Highway's convention for -inl.h files).
#if defined(MOBIUS_CORE_CPU_ATTENTION_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOBIUS_CORE_CPU_ATTENTION_ROWS_INL_H_
#undef MOBIUS_CORE_CPU_ATTENTION_ROWS_INL_H_
#else
#define MOBIUS_CORE_CPU_ATTENTION_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/cpu/attention/problem.h"
#include "core/cpu/simd/math-inl.h"
#include "core/cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#include "core/score_maps/score_maps.inc"

template <class T>
using Lanes = hn::ScalableTag<T>;

/// A number of attention for one row of a tile: of its query, or of the keys from the tile's first.
template <class T>
struct RowNumber {
  T value = 0;
  const T* keys = nullptr;  // null where none is given
};

/// The gradient of such a number: summed over the row, or added to those of the keys.
template <class T>
struct RowNumberGrad {
  hn::Vec<Lanes<T>> sum;
  T* keys;  // null where none is wanted
};

template <class T>
using RowNumbers = AttentionOperands<RowNumber<T>>;
template <class T>
using RowNumberGrads = AttentionOperands<RowNumberGrad<T>>;

/// Sums of 0 over the row; gradients of keys are added at `keys`.
template <class T>
HWY_INLINE RowNumberGrads<T> zero_grads(const AttentionOperands<T*>& keys) {
  RowNumberGrads<T> grads;
  for_each_number(
      [](const NumberKind&, T* at, RowNumberGrad<T>& grad) HWY_ATTR {
        grad = {hn::Zero(Lanes<T>()), at};
      },
      keys, grads);
  return grads;
}

/// The gradients of the numbers of the query, summed over the lanes.
template <class Map, class T>
HWY_INLINE AttentionOperands<T> query_sums(const RowNumberGrads<T>& grads) {
  AttentionOperands<T> sums;
  for_each_number(
      [](const NumberKind& number, const NumberUse& use, const RowNumberGrad<T>& grad, T& sum)
          HWY_ATTR {
            if (number.of == NumberOf::query && use.is_taken)
              sum = hn::GetLane(hn::SumOfLanes(Lanes<T>(), grad.sum));
          },
      Map::uses, grads, sums);
  return sums;
}

/// The arithmetic of a score map on the vector at key j, counted from the tile's first.
template <class T>
struct RowMath {
  using V = hn::Vec<Lanes<T>>;
  std::int64_t j;

  HWY_INLINE V constant(double x) const { return hn::Set(Lanes<T>(), static_cast<T>(x)); }
  HWY_INLINE double epsilon() const { return std::numeric_limits<T>::epsilon(); }
  HWY_INLINE bool has(const RowNumber<T>& number) const { return number.keys != nullptr; }
  HWY_INLINE V of_query(const RowNumber<T>& number) const {
    return hn::Set(Lanes<T>(), number.value);
  }
  HWY_INLINE V of_key(const RowNumber<T>& number) const {
    return hn::LoadU(Lanes<T>(), number.keys + j);
  }
  HWY_INLINE V exp(V x) const { return HWY_NAMESPACE::exp(Lanes<T>(), x); }
  HWY_INLINE V log(V x) const { return HWY_NAMESPACE::log(Lanes<T>(), x); }
  HWY_INLINE V sqrt(V x) const { return hn::Sqrt(x); }
  HWY_INLINE V max(V a, V b) const { return hn::Max(a, b); }
  HWY_INLINE V mul_add(V a, V b, V c) const { return hn::MulAdd(a, b, c); }
  HWY_INLINE void add_to_query(RowNumberGrad<T>& grad, V a) const { grad.sum = grad.sum + a; }
  HWY_INLINE void add_to_query(RowNumberGrad<T>& grad, V a, V b) const {
    grad.sum = hn::MulAdd(a, b, grad.sum);
  }
  HWY_INLINE void add_to_key(const RowNumberGrad<T>& grad, V a) const {
    if (!grad.keys) return;
    const Lanes<T> d;
    hn::StoreU(hn::LoadU(d, grad.keys + j) + a, d, grad.keys + j);
  }
};

/// Which lanes of the vector at key j (counted from the tile's first) are seen.
template <class T>
HWY_INLINE hn::Mask<Lanes<T>> seen_lanes(const KeyFlags& keys, std::int64_t first, std::int64_t j) {
  const Lanes<T> d;
  const auto index = hn::Iota(d, static_cast<T>(j));
  auto seen = hn::And(hn::Ge(index, hn::Set(d, static_cast<T>(keys.lo - first))),
                      hn::Lt(index, hn::Set(d, static_cast<T>(keys.hi - first))));
  if (keys.allowed) {
    HWY_ALIGN T flags[hn::MaxLanes(d)];
    const std::int64_t n = static_cast<std::int64_t>(hn::Lanes(d));
    for (std::int64_t l = 0; l < n; ++l) {
      const std::int64_t at = j + l;
      flags[l] = at < keys.hi - first && keys.allowed[at] ? T{1} : T{0};
    }
    seen = hn::And(seen, hn::Ne(hn::Load(d, flags), hn::Zero(d)));
  }
  return seen;
}

/// Whether every lane of the vector at j is seen, told without looking at the lanes.
template <class T>
HWY_INLINE bool all_seen(const KeyFlags& keys, std::int64_t first, std::int64_t j) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Lanes<T>()));
  return !keys.allowed && j + first >= keys.lo && j + first + lanes <= keys.hi;
}

/// Applies fn(j, seen) to the vectors of [0, width) that hold seen keys and zero(j) to the others.
/// `seen` is a mask, or Everything where all lanes are.
struct Everything {};
template <class T, class Fn, class Zero>
HWY_INLINE void for_each_vector(const KeyFlags& keys, std::int64_t first, std::int64_t width,
                                Fn&& fn, Zero&& zero) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Lanes<T>()));
  for (std::int64_t j = 0; j < width; j += lanes) {
    if (all_seen<T>(keys, first, j))
      fn(j, Everything{});
    else if (j + first >= keys.hi || j + first + lanes <= keys.lo)
      zero(j);
    else
      fn(j, seen_lanes<T>(keys, first, j));
  }
}

template <class V>
HWY_INLINE V or_zero(Everything, V x) {
  return x;
}
template <class M, class V>
HWY_INLINE V or_zero(M seen, V x) {
  return hn::IfThenElseZero(seen, x);
}
template <class V>
HWY_INLINE V or_else(Everything, V x, V /*other*/) {
  return x;
}
template <class M, class V>
HWY_INLINE V or_else(M seen, V x, V other) {
  return hn::IfThenElse(seen, x, other);
}

/// products -> logits in place (-inf where unseen); returns the largest.
template <class T, class Map>
T logits_row(Map map, const RowNumbers<T>& row_numbers, const KeyFlags& keys, std::int64_t first,
             std::int64_t width, T* row) {
  const Lanes<T> d;
  const RowNumbers<T> numbers = row_numbers;  // in registers: what is stored may not change it
  const auto lowest = hn::Neg(infinity(d));
  auto largest = lowest;
  for_each_vector<T>(
      keys, first, width,
      [&](std::int64_t j, auto seen) HWY_ATTR {
        const auto logit = map.logit(RowMath<T>{j}, numbers, hn::LoadU(d, row + j));
        const auto x = or_else(seen, logit, lowest);
        largest = hn::Max(largest, x);
        hn::StoreU(x, d, row + j);
      },
      [&](std::int64_t j) HWY_ATTR { hn::StoreU(lowest, d, row + j); });
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

/// logits -> e^(logit - shift) in place; returns their sum.
template <class T>
T exponentials_row(T shift, std::int64_t width, T* row) {
  const Lanes<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto offset = hn::Set(d, shift);
  auto sum = hn::Zero(d);
  for (std::int64_t j = 0; j < width; j += lanes) {
    const auto e = hn::Exp(d, hn::Sub(hn::LoadU(d, row + j), offset));
    hn::StoreU(e, d, row + j);
    sum = hn::Add(sum, e);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// products -> weights without a softmax, none above `largest`, in place.
template <class T, class Map>
void weights_row(Map map, const RowNumbers<T>& row_numbers, T largest, const KeyFlags& keys,
                 std::int64_t first, std::int64_t width, T* row) {
  const Lanes<T> d;
  const RowNumbers<T> numbers = row_numbers;
  const auto cap = hn::Set(d, largest);
  for_each_vector<T>(
      keys, first, width,
      [&](std::int64_t j, auto seen) HWY_ATTR {
        const auto w = map.weight(RowMath<T>{j}, numbers, hn::LoadU(d, row + j));
        hn::StoreU(or_zero(seen, hn::Min(w, cap)), d, row + j);
      },
      [&](std::int64_t j) HWY_ATTR { hn::StoreU(hn::Zero(d), d, row + j); });
}

/// What the weights of a row are made with: with a softmax the log of their sum, and the mean
/// sum_j w_j d loss / d w_j; without one the largest weight.
template <class T>
struct RowWeights {
  T lse, mean, largest;
};

/// products -> weights in place, grad_w (d loss / d weight) -> grad of the products in place. Adds
/// gradients of numbers at `key_grads`, or returns them where they belong to the query.
template <bool kSoftmax, class T, class Map>
AttentionOperands<T> backward_row(Map map, const RowNumbers<T>& row_numbers,
                                  const AttentionOperands<T*>& key_grads,
                                  const RowWeights<T>& weights, const KeyFlags& keys,
                                  std::int64_t first, std::int64_t width, T* row, T* grad_w) {
  const Lanes<T> d;
  const RowNumbers<T> numbers = row_numbers;
  RowNumberGrads<T> grads = zero_grads(key_grads);
  const auto shift = hn::Set(d, weights.lse), mean = hn::Set(d, weights.mean);
  const auto cap = hn::Set(d, weights.largest);
  for_each_vector<T>(
      keys, first, width,
      [&](std::int64_t j, auto seen) HWY_ATTR {
        const RowMath<T> m{j};
        const auto product = hn::LoadU(d, row + j), grad = hn::LoadU(d, grad_w + j);
        auto w = product, grad_product = grad;
        if constexpr (kSoftmax) {
          w = or_zero(seen, hn::Exp(d, hn::Sub(map.logit(m, numbers, product), shift)));
          const auto grad_logit = softmax_gradient(w, grad, mean);
          grad_product = map.gradient(m, numbers, product, grad_logit, grads);
        } else {
          const auto uncapped = map.weight_beside_gradient(m, numbers, product);
          w = or_zero(seen, hn::Min(uncapped, cap));
          const auto passes = hn::IfThenElseZero(hn::Le(uncapped, cap), w);
          grad_product = map.weight_gradient(m, numbers, product, hn::Mul(passes, grad), grads);
        }
        hn::StoreU(w, d, row + j);
        hn::StoreU(grad_product, d, grad_w + j);
      },
      [&](std::int64_t j) HWY_ATTR {
        hn::StoreU(hn::Zero(d), d, row + j);
        hn::StoreU(hn::Zero(d), d, grad_w + j);
      });
  return query_sums<Map>(grads);
}

/// to += x over whole vectors.
template <class T>
void add_row(const T* x, std::int64_t width, T* to) {
  const Lanes<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < width; j += lanes)
    hn::StoreU(hn::Add(hn::LoadU(d, to + j), hn::LoadU(d, x + j)), d, to + j);
}

template <class T>
void scale_row_by(T factor, std::int64_t width, T* row) {
  const Lanes<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto by = hn::Set(d, factor);
  for (std::int64_t j = 0; j < width; j += lanes)
    hn::StoreU(hn::Mul(by, hn::LoadU(d, row + j)), d, row + j);
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
