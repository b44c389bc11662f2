// One row of one tile of the attention kernel: from the products <q_i, k_j> to weights, and back.
// A score map is a struct with `logit`, the log of the unnormalised weight; the conformal one also
// has its weight directly, without exp and log.
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

#include "core/attention_pieces.inc"

template <class T>
using Lanes = hn::ScalableTag<T>;

/// ScoreMap::dot for one query; the pointers start at the first key of the tile, or are null.
template <class T>
struct DotScore {
  const T* key_bias;
  const T* distance_bias;

  template <class V>
  HWY_INLINE V logit(V product, std::int64_t j) const {
    const Lanes<T> d;
    if (key_bias) product = hn::Add(product, hn::LoadU(d, key_bias + j));
    if (distance_bias) product = hn::Add(product, hn::LoadU(d, distance_bias + j));
    return product;
  }
};

/// ScoreMap::conformal for one query.
template <class T>
struct ConformalScore {
  T sharpness;              // t
  T exponent;               // s
  T base;                   // b = e^(g/s) with a whole 2s, else 1
  T log_factor;             // g without one, else 0
  T cap;                    // largest weight
  unsigned twice_exponent;  // 2s where that is a whole number, else 0

  /// a, kept positive where rounding carries t u to 1.
  template <class V>
  HWY_INLINE V distance(V product) const {
    const Lanes<T> d;
    const auto smallest = hn::Set(d, std::numeric_limits<T>::epsilon() / 2);
    return hn::Max(conformal_distance(product, hn::Set(d, sharpness), hn::Set(d, T{1})), smallest);
  }
  /// -s log a: g is constant along the row and drops out of a softmax.
  template <class V>
  HWY_INLINE V logit(V product, std::int64_t /*j*/) const {
    const Lanes<T> d;
    return hn::Mul(hn::Set(d, -exponent), log(d, distance(product)));
  }
  /// e^g / a^s, uncapped, given b / a.
  template <class V>
  HWY_INLINE V weight(V ratio) const {
    const Lanes<T> d;
    if (twice_exponent == 0) {
      return exp(d, hn::MulAdd(hn::Set(d, exponent), log(d, ratio), hn::Set(d, log_factor)));
    }
    if (twice_exponent % 2 == 0) return positive_power(ratio, twice_exponent / 2);
    return positive_power(hn::Sqrt(ratio), twice_exponent);
  }
};

/// Which lanes of the vector at key j (counted from the tile's first) are seen.
template <class T>
HWY_INLINE hn::Mask<Lanes<T>> seen_lanes(const TileKeys& keys, std::int64_t first, std::int64_t j) {
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
HWY_INLINE bool all_seen(const TileKeys& keys, std::int64_t first, std::int64_t j) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Lanes<T>()));
  return !keys.allowed && j + first >= keys.lo && j + first + lanes <= keys.hi;
}

/// Applies fn(j, seen) to the vectors of [0, width) that hold seen keys and zero(j) to the others.
/// `seen` is a mask, or Everything where all lanes are.
struct Everything {};
template <class T, class Fn, class Zero>
HWY_INLINE void for_each_vector(const TileKeys& keys, std::int64_t first, std::int64_t width,
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
template <class T, class Score>
T logits_row(const Score& score, const TileKeys& keys, std::int64_t first, std::int64_t width,
             T* row) {
  const Lanes<T> d;
  const auto lowest = hn::Neg(infinity(d));
  auto largest = lowest;
  for_each_vector<T>(
      keys, first, width,
      [&](std::int64_t j, auto seen) HWY_ATTR {
        const auto x = or_else(seen, score.logit(hn::LoadU(d, row + j), j), lowest);
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

/// products -> capped weights e^g / a^s in place.
template <class T>
void weights_row(const ConformalScore<T>& score, const TileKeys& keys, std::int64_t first,
                 std::int64_t width, T* row) {
  const Lanes<T> d;
  const auto b = hn::Set(d, score.base), cap = hn::Set(d, score.cap);
  for_each_vector<T>(
      keys, first, width,
      [&](std::int64_t j, auto seen) HWY_ATTR {
        const auto a = score.distance(hn::LoadU(d, row + j));
        const auto w = hn::Min(score.weight(hn::Div(b, a)), cap);
        hn::StoreU(or_zero(seen, w), d, row + j);
      },
      [&](std::int64_t j) HWY_ATTR { hn::StoreU(hn::Zero(d), d, row + j); });
}

/// Gradients of the numbers of one query, summed over its keys.
template <class T>
struct RowGrads {
  T sharpness = 0, log_factor = 0;
};

/// Backward of softmax: products -> weights in place, grad_w (d loss / d weight) -> grad of the
/// products in place.
template <class T, class Score>
RowGrads<T> softmax_backward_row(const Score& score, const TileKeys& keys, std::int64_t first,
                                 std::int64_t width, T lse, T mean, T* row, T* grad_w) {
  const Lanes<T> d;
  const auto shift = hn::Set(d, lse), centre = hn::Set(d, mean);
  auto grad_t = hn::Zero(d);
  for_each_vector<T>(
      keys, first, width,
      [&](std::int64_t j, auto seen) HWY_ATTR {
        const auto product = hn::LoadU(d, row + j);
        const auto w = or_zero(seen, hn::Exp(d, hn::Sub(score.logit(product, j), shift)));
        const auto grad_logit = softmax_gradient(w, hn::LoadU(d, grad_w + j), centre);
        hn::StoreU(w, d, row + j);
        if constexpr (std::is_same_v<Score, ConformalScore<T>>) {
          // logit = -s log(1 - t u): its derivatives share the factor s / a.
          const auto inverse = hn::Div(hn::Set(d, T{1}), score.distance(product));
          const auto common = conformal_gradient(grad_logit, hn::Set(d, score.exponent), inverse);
          hn::StoreU(hn::Mul(common, hn::Set(d, score.sharpness)), d, grad_w + j);
          grad_t = hn::MulAdd(common, product, grad_t);
        } else {
          hn::StoreU(grad_logit, d, grad_w + j);
        }
      },
      [&](std::int64_t j) HWY_ATTR {
        hn::StoreU(hn::Zero(d), d, row + j);
        hn::StoreU(hn::Zero(d), d, grad_w + j);
      });
  return {hn::GetLane(hn::SumOfLanes(d, grad_t)), 0};
}

/// The same without normalisation, for the conformal map.
template <class T>
RowGrads<T> weights_backward_row(const ConformalScore<T>& score, const TileKeys& keys,
                                 std::int64_t first, std::int64_t width, T* row, T* grad_w) {
  const Lanes<T> d;
  const auto one = hn::Set(d, T{1}), b = hn::Set(d, score.base), s = hn::Set(d, score.exponent);
  const auto t = hn::Set(d, score.sharpness), cap = hn::Set(d, score.cap);
  auto grad_t = hn::Zero(d), grad_g = hn::Zero(d);
  for_each_vector<T>(
      keys, first, width,
      [&](std::int64_t j, auto seen) HWY_ATTR {
        const auto product = hn::LoadU(d, row + j);
        const auto inverse = hn::Div(one, score.distance(product));
        const auto uncapped = score.weight(hn::Mul(b, inverse));
        const auto w = or_zero(seen, hn::Min(uncapped, cap));
        const auto passes = hn::IfThenElseZero(hn::Le(uncapped, cap), w);
        const auto grad_log = hn::Mul(passes, hn::LoadU(d, grad_w + j));
        const auto common = conformal_gradient(grad_log, s, inverse);
        hn::StoreU(w, d, row + j);
        hn::StoreU(hn::Mul(common, t), d, grad_w + j);
        grad_t = hn::MulAdd(common, product, grad_t);
        grad_g = hn::Add(grad_g, grad_log);
      },
      [&](std::int64_t j) HWY_ATTR {
        hn::StoreU(hn::Zero(d), d, row + j);
        hn::StoreU(hn::Zero(d), d, grad_w + j);
      });
  return {hn::GetLane(hn::SumOfLanes(d, grad_t)), hn::GetLane(hn::SumOfLanes(d, grad_g))};
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
