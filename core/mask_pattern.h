// The part of an AttentionMask that is arithmetic, for the kernels of every device.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mobius {

/// [begin, end).
struct IndexRange {
  std::int64_t begin, end;
};

/// causal, window, stride and n_global of an AttentionMask over n_q queries and n_k keys.
struct MaskPattern {
  std::int64_t n_q, n_k;
  bool causal = false;
  std::int64_t window = 0, stride = 0, n_global = 0;

  template <class Mask>
  constexpr MaskPattern(const Mask& mask, std::int64_t n_queries, std::int64_t n_keys)
      : n_q(n_queries),
        n_k(n_keys),
        causal(mask.causal),
        window(std::min(mask.window, n_queries + n_keys)),  // no distance is larger
        stride(mask.stride),
        n_global(mask.n_global) {}

  /// The position of query i among the keys.
  constexpr std::int64_t position(std::int64_t i) const { return i + n_k - n_q; }
  /// Whether a query sees all keys of its keys_of().
  constexpr bool is_contiguous() const { return window == 0 || is_band(); }

  /// A range that holds all keys that the queries [i0, i1) see.
  constexpr IndexRange keys_of(std::int64_t i0, std::int64_t i1) const {
    const std::int64_t last = position(i1 - 1);
    std::int64_t begin = 0, end = n_k;
    if (is_band()) {
      begin = position(i0) - window + 1;
      end = last + window;
    }
    if (causal) end = last + 1;
    return {within(begin, n_k), within(end, n_k)};
  }
  /// A range that holds all queries that see a key of [j0, j1).
  constexpr IndexRange queries_of(std::int64_t j0, std::int64_t j1) const {
    const std::int64_t first = j0 - position(0);
    std::int64_t begin = 0, end = n_q;
    if (is_band()) {
      begin = first - window + 1;
      end = j1 - 1 - position(0) + window;
    }
    if (causal) begin = first;
    return {within(begin, n_q), within(end, n_q)};
  }
  /// Whether query i sees key j, which is one of its keys_of().
  constexpr bool sees(std::int64_t i, std::int64_t j) const {
    const std::int64_t distance = position(i) - j;
    return window == 0 || (distance < window && -distance < window) ||
           (stride > 0 && distance % stride == 0) || j < n_global;
  }

 private:
  // x in [0, n]: std::clamp() by value, since references would take a GPU's registers to memory.
  static constexpr std::int64_t within(std::int64_t x, std::int64_t n) {
    return x < 0 ? 0 : (x < n ? x : n);
  }
  constexpr bool is_band() const { return window > 0 && stride == 0 && n_global == 0; }
};

}  // namespace mobius
