// What multi-head attention variants share: projections, heads, positions, dropout, diagnostics.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/comm/share.h"
#include "nn/attention/attention.h"
#include "nn/attention/weights.h"
#include "nn/linear.h"

namespace mobius {

/// What every head of a variant works on.
struct HeadInputs {
  Variable q = {};  // [B, H, n_q, d_q]
  Variable k = {};  // [B, G, n_k, d_q], G key/value heads
  Variable v = {};  // [B, G, n_k, d]; only weights do without
  AttentionMask mask = {};
  AttentionExtras extras = {};  // distance_bias for alibi and relative positions alone
  /// Takes what the variant has to say about this pass; null: nothing.
  DiagnosticsSink* sink = nullptr;
};

/// x -> q, k, v by one projection `qkv` (rows in the order q, k, v, each [heads, d_q or d] inside),
/// RoPE on q and k where asked for, attend() in every head, and the output projection `proj`. Where
/// initial matrices are orthogonal, those of q, k and v are, each. Relative positions are the
/// parameter `relative`.
///
/// Most variants derive from FusedAttention below or from FeatureAttention (features.h); one that
/// is neither states its weights(), and is computed from them.
class MultiHeadAttention : public Attention {
 public:
  /// The width d_q of a head's queries and keys is qk_parts head dimensions; a variant with more
  /// than one applies RoPE itself.
  explicit MultiHeadAttention(const AttentionContext& context, std::int64_t qk_parts = 1);

  Variable forward(const Variable& x, const AttentionMask& mask,
                   const ForwardContext& context) const override;

  /// Keys and values, for all but variants that carry sums.
  std::unique_ptr<AttentionCache> make_cache() const override;
  Variable extend(const Variable& x, AttentionCache& cache) const override;

 protected:
  /// The weights, explicit, [B, H, n_q, n_k], before dropout. There may be fewer queries than keys:
  /// query i then stands at position i + n_k - n_q, as in AttentionMask.
  virtual Variable weights(const HeadInputs& in) const = 0;
  /// -> [B, H, n_q, d].
  virtual Variable attend(const HeadInputs& in) const;
  /// attend() for extend(): `in` holds the new positions.
  virtual Variable attend_cached(HeadInputs in, AttentionCache& cache) const;

  std::int64_t n_heads() const { return n_heads_; }
  std::int64_t n_kv_heads() const { return n_kv_heads_; }
  std::int64_t head_dim() const { return head_dim_; }
  /// Nothing unless positions are rotary.
  std::optional<double> rope_base() const { return rope_base_; }

 private:
  /// For x whose first row stands at `position`; extras apart.
  HeadInputs head_inputs(const Variable& x, const AttentionMask& mask, std::int64_t position) const;
  Variable distance_bias(const HeadInputs& in) const;
  void diagnose(const HeadInputs& in, DiagnosticsSink& sink) const;
  HeadInputs part_of(const HeadInputs& in, const Share& sequences, const Share& queries) const;

  std::int64_t n_heads_, n_kv_heads_, head_dim_, qk_parts_;
  std::optional<double> rope_base_;
  double dropout_;
  std::string dropout_site_;
  std::shared_ptr<Linear> qkv_, proj_;
  Tensor alibi_slopes_;  // [H, 1]; undefined unless positions are alibi
  Variable relative_;    // [2 max_distance + 1]; undefined unless positions are relative
};

/// A variant that is a call of the fused kernel.
class FusedAttention : public MultiHeadAttention {
 public:
  using MultiHeadAttention::MultiHeadAttention;

 protected:
  virtual AttentionCall call(const HeadInputs& in) const = 0;

  Variable attend(const HeadInputs& in) const override { return attention(call(in)); }
  Variable weights(const HeadInputs& in) const override { return attention_weights(call(in)); }
};

/// Softmax over <q_i, k_j>, the distance bias added: what a variant changes pieces of.
AttentionCall product_call(const HeadInputs& in);

/// sum_j weights_ij v_j after dropout, for explicit weights [B, H, n_q, n_k].
Variable apply_weights(const Variable& weights, const HeadInputs& in);

}  // namespace mobius
