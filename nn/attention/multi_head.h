// What multi-head attention variants share: projections, heads, rotary positions.
#pragma once

#include <memory>

#include "nn/attention/attention.h"
#include "nn/linear.h"

namespace mobius {

/// x -> q, k, v by one projection `qkv` (rows in the order q, k, v, each [heads, d] inside),
/// optional RoPE on q and k, attend() in every head, and the output projection `proj`.
class MultiHeadAttention : public Attention {
 public:
  /// Throws ConfigError where the heads do not divide d_model, or are odd and rotary.
  explicit MultiHeadAttention(const AttentionContext& context);

  Variable forward(const Variable& x, const AttentionMask& mask,
                   const ForwardContext& context) override;

 protected:
  /// q, k, v [B, H, N, d] -> [B, H, N, d].
  virtual Variable attend(const Variable& q, const Variable& k, const Variable& v,
                          const AttentionMask& mask) = 0;

  std::int64_t n_heads() const { return n_heads_; }
  std::int64_t head_dim() const { return d_model_ / n_heads_; }

 private:
  Variable split_heads(const Variable& x) const;
  Variable merge_heads(const Variable& x) const;
  Variable rotate(const Variable& x) const { return rope_ ? rope(x, rope_base_) : x; }

  std::int64_t d_model_;
  std::int64_t n_heads_;
  bool rope_;
  double rope_base_;
  std::shared_ptr<Linear> qkv_, proj_;
};

}  // namespace mobius
