// The base of multi-head variants: projections, heads, positions, dropout, diagnostics.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/comm/share.h"
#include "nn/attention/attention.h"
#include "nn/attention/weights.h"
#include "nn/linear.h"

namespace mobius {

/// The inputs of every head.
struct HeadInputs {
  Variable q = {};  // [B, H, n_q, d_q]
  Variable k = {};  // [B, G, n_k, d_q], G key/value heads
  Variable v = {};  // [B, G, n_k, d]; weights do not need it
  AttentionMask mask = {};
  AttentionExtras extras = {};  // distance_bias only for alibi and relative positions
  /// The keys of the whole sequence if k is a part of them, else undefined.
  Variable all_keys = {};
  /// Takes the diagnostics of this pass; null if nobody wants them.
  DiagnosticsSink* sink = nullptr;
  /// Of the layer's products; see AttentionSpec::precision.
  MatmulPrecision products = MatmulPrecision::full;
};

/// x -> q, k, v by one projection `qkv` (rows in the order q, k, v, each [heads, d_q or d] inside),
/// RoPE on q and k if the model has it, attend() in every head, and the output projection `proj`.
/// With orthogonal initial matrices, those of q, k and v are each orthogonal. Relative positions
/// are the parameter `relative`.
///
/// Most variants derive from FusedAttention below or from FeatureAttention (features.h). Any other
/// variant defines weights(), and attend() applies them.
class MultiHeadAttention : public Attention {
 public:
  /// The width d_q of a head's queries and keys is qk_parts head dimensions. A variant with more
  /// than one part applies RoPE itself.
  explicit MultiHeadAttention(const AttentionContext& context, std::int64_t qk_parts = 1);

  Variable forward(const Variable& x, const AttentionMask& mask,
                   const ForwardContext& context) const override;

  /// Returns a KeyValueCache; variants that carry sums override it.
  std::unique_ptr<AttentionCache> make_cache() const override;
  Variable extend(const Variable& x, AttentionCache& cache) const override;

 protected:
  /// Returns the weights, [B, H, n_q, n_k], before dropout. Query i stands at position
  /// i + n_k - n_q, as in AttentionMask.
  virtual Variable weights(const HeadInputs& in) const = 0;
  /// -> [B, H, n_q, d].
  virtual Variable attend(const HeadInputs& in) const;
  /// attend() for extend(): `in` holds the new positions.
  virtual Variable attend_cached(HeadInputs in, AttentionCache& cache) const;

  std::int64_t n_heads() const { return n_heads_; }
  std::int64_t n_kv_heads() const { return n_kv_heads_; }
  std::int64_t head_dim() const { return head_dim_; }
  /// Empty unless positions are rotary.
  std::optional<double> rope_base() const { return rope_base_; }

 private:
  /// Projects x, whose first row stands at `position`. Leaves `extras` empty.
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

/// A variant that calls the fused kernel.
class FusedAttention : public MultiHeadAttention {
 public:
  using MultiHeadAttention::MultiHeadAttention;

 protected:
  virtual AttentionCall call(const HeadInputs& in) const = 0;

  Variable attend(const HeadInputs& in) const override { return attention(call(in)); }
  Variable weights(const HeadInputs& in) const override { return attention_weights(call(in)); }
};

/// Softmax over <q_i, k_j> plus the distance bias. Variants change parts of this call.
AttentionCall product_call(const HeadInputs& in);

/// Returns sum_j weights_ij v_j after dropout, for weights [B, H, n_q, n_k].
Variable apply_weights(const Variable& weights, const HeadInputs& in);

}  // namespace mobius
