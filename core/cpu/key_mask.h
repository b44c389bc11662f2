// An AttentionMask seen query by query, but for its pattern (window, stride, n_global): who has one
// asks AttentionMask::pattern_sees too, or is given it within `mask`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/cpu/rows.h"
#include "core/ops/attention_mask.h"

namespace mobius {

/// The keys that one query may see: the first `visible` ones, and among them those whose
/// mask[j * stride] is not 0 (all of them when mask is null).
struct KeyMask {
  std::int64_t visible;
  const std::uint8_t* mask;
  std::int64_t stride;
};

/// The KeyMask of every row of [..., n_q, n_k].
class MaskRows {
 public:
  /// `mask.mask` is undefined or of shape `shape` (strided).
  MaskRows(const AttentionMask& mask, const Shape& shape)
      : causal_(mask.causal), n_q_(shape[shape.size() - 2]), n_k_(shape.back()) {
    if (!mask.mask.defined()) return;
    data_ = mask.mask.data<std::uint8_t>();
    batch_ = leading_offsets(mask.mask, 2);
    query_stride_ = mask.mask.stride(-2);
    key_stride_ = mask.mask.stride(-1);
  }

  KeyMask operator()(std::int64_t row) const {
    const std::int64_t i = row % n_q_;
    const std::int64_t visible =
        causal_ ? std::clamp<std::int64_t>(i + 1 + n_k_ - n_q_, 0, n_k_) : n_k_;
    if (!data_) return {visible, nullptr, 0};
    const std::int64_t offset = batch_[static_cast<std::size_t>(row / n_q_)] + i * query_stride_;
    return {visible, data_ + offset, key_stride_};
  }

 private:
  bool causal_;
  std::int64_t n_q_, n_k_;
  const std::uint8_t* data_ = nullptr;
  std::vector<std::int64_t> batch_;  // where the mask of each matrix starts
  std::int64_t query_stride_ = 0, key_stride_ = 0;
};

}  // namespace mobius
