// An AttentionMask as the kernels of the CPU read it: for one query, a range of keys at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/cpu/rows.h"
#include "core/mask_pattern.h"
#include "core/ops/attention_mask.h"

namespace mobius {

/// The keys of a range [begin, end) that one query sees: those in [lo, hi) whose allowed[j - begin]
/// is not 0 (all of them if `allowed` is null).
struct KeyFlags {
  std::int64_t lo, hi;
  const std::uint8_t* allowed;
};

/// Which keys each query sees. Queries are numbered within their matrix [n_q, n_k] of scores.
class SeenKeys {
 public:
  /// For scores[..., n_q, n_k], to which the tensors of the mask are broadcast.
  SeenKeys(const AttentionMask& mask, const Shape& scores)
      : pattern_(mask, scores[scores.size() - 2], scores.back()) {
    if (mask.mask.defined()) given_ = Rows<std::uint8_t>(mask.mask.expand(scores));
    if (!mask.selected.defined()) return;
    Shape selected = scores;
    selected.back() = mask.selected.size(-1);
    selected_ = Rows<std::int32_t>(mask.selected.contiguous().expand(selected));
  }

  const MaskPattern& pattern() const { return pattern_; }

  /// Mask byte j of a query is at j * stride; null if no mask is given.
  struct GivenRow {
    const std::uint8_t* data;
    std::int64_t stride;
  };
  GivenRow given(std::int64_t matrix, std::int64_t i) const {
    return {given_.row(matrix, i), given_.stride};
  }

  /// The keys of [begin, end) that query i of a matrix sees; `flags` has room for end - begin.
  KeyFlags keys(std::int64_t matrix, std::int64_t i, std::int64_t begin, std::int64_t end,
                std::uint8_t* flags) const {
    const IndexRange span = pattern_.keys_of(i, i + 1);
    KeyFlags keys{std::clamp(span.begin, begin, end), std::clamp(span.end, begin, end), nullptr};
    if (pattern_.is_contiguous() && !given_.data && !selected_.data) return keys;
    keys.allowed = flags;
    std::fill(flags, flags + (end - begin), selected_.data ? std::uint8_t{0} : std::uint8_t{1});
    if (selected_.data) flag_selected(matrix, i, begin, end, flags);
    if (!pattern_.is_contiguous()) {
      for (std::int64_t j = keys.lo; j < keys.hi; ++j) flags[j - begin] &= pattern_.sees(i, j);
    }
    if (const auto [row, stride] = given(matrix, i); row) {
      for (std::int64_t j = keys.lo; j < keys.hi; ++j) flags[j - begin] &= row[j * stride] != 0;
    }
    return keys;
  }

 private:
  // The rows of a tensor [..., n_q, n], strided; `data` is null without one.
  template <class T>
  struct Rows {
    Tensor tensor;
    const T* data = nullptr;
    std::vector<std::int64_t> matrices;  // where each matrix starts
    std::int64_t row_stride = 0, stride = 0;

    Rows() = default;
    explicit Rows(const Tensor& x)
        : tensor(x),
          data(x.data<T>()),
          matrices(leading_offsets(x, 2)),
          row_stride(x.stride(-2)),
          stride(x.stride(-1)) {}
    const T* row(std::int64_t matrix, std::int64_t i) const {
      return data ? data + matrices[static_cast<std::size_t>(matrix)] + i * row_stride : nullptr;
    }
  };

  void flag_selected(std::int64_t matrix, std::int64_t i, std::int64_t begin, std::int64_t end,
                     std::uint8_t* flags) const {
    const std::int32_t* const first = selected_.row(matrix, i);
    const std::int32_t* const last = first + selected_.tensor.size(-1);
    for (auto j = std::lower_bound(first, last, begin); j != last && *j < end; ++j)
      if (*j >= begin) flags[*j - begin] = 1;
  }

  MaskPattern pattern_;
  Rows<std::uint8_t> given_;
  Rows<std::int32_t> selected_;
};

}  // namespace mobius
