// What multi-head attention variants share: projections, heads, positions, dropout, diagnostics.
#pragma once

#include <memory>

#include "core/comm/share.h"
#include "nn/attention/attention.h"
#include "nn/attention/weights.h"
#include "nn/linear.h"

namespace mobius {

/// What every head of a variant works on.
struct HeadInputs {
  Variable q;  // [B, H, N, d_q]
  Variable k;  // [B, G, N, d_q], G key/value heads
  Variable v;  // [B, G, N, d]
  AttentionMask mask;
  AttentionExtras extras;  // distance_bias for alibi and relative positions alone
};

/// x -> q, k, v by one projection `qkv` (rows in the order q, k, v, each [heads, d_q or d] inside),
/// RoPE on q and k where asked for, attend() in every head, and the output projection `proj`. Where
/// initial matrices are orthogonal, those of q, k and v are, each. Relative positions are the
/// parameter `relative`.
class MultiHeadAttention : public Attention {
 public:
  /// The width d_q of a head's queries and keys is qk_parts head dimensions; a variant with more
  /// than one applies RoPE itself, by rotate(). Throws ConfigError where the heads do not divide
  /// d_model, the key/value heads not the heads, or head dimensions are odd and rotary.
  explicit MultiHeadAttention(const AttentionContext& context, std::int64_t qk_parts = 1);

  Variable forward(const Variable& x, const AttentionMask& mask,
                   const ForwardContext& context) override;

  /// Keys and values, for all but variants that carry sums.
  std::unique_ptr<AttentionCache> make_cache() const override;
  Variable extend(const Variable& x, AttentionCache& cache) override;

  AttentionDiagnostics diagnostics() const override {
    return {.weights = first_weights_, .entropy = entropy_};
  }

 protected:
  /// -> [B, H, N, d].
  virtual Variable attend(const HeadInputs& in) = 0;
  /// attend() for extend(): `in` holds the new positions.
  virtual Variable attend_cached(HeadInputs in, AttentionCache& cache);
  /// The weights of attend(), explicit, [B, H, n_q, n_k]. There may be fewer queries than keys:
  /// query i then stands at position i + n_k - n_q, as in AttentionMask.
  virtual Variable weights(const HeadInputs& in) = 0;

  std::int64_t n_heads() const { return n_heads_; }
  std::int64_t n_kv_heads() const { return n_kv_heads_; }
  std::int64_t head_dim() const { return d_model_ / n_heads_; }
  /// x[B, heads, N, d], the first row at `position`, by RoPE where that is how positions are told,
  /// else x.
  Variable rotate(const Variable& x, std::int64_t position) const;

 private:
  /// For x whose first row stands at `position`; extras apart.
  HeadInputs head_inputs(const Variable& x, const AttentionMask& mask, std::int64_t position) const;
  Variable distance_bias(const HeadInputs& in) const;
  void diagnose(const HeadInputs& in, Diagnosis diagnosis);
  HeadInputs part_of(const HeadInputs& in, const Share& sequences, const Share& queries) const;

  std::int64_t d_model_, n_heads_, n_kv_heads_, qk_parts_;
  Positions positions_;
  double rope_base_;
  double dropout_;
  std::string dropout_site_;
  std::shared_ptr<Linear> qkv_, proj_;
  Variable relative_;  // [2 max_distance + 1]; undefined unless positions are relative
  std::vector<double> entropy_;
  Tensor first_weights_;  // of the first sequence
};

}  // namespace mobius
