// Attention by products of positive features instead of the exponential. Sums over keys are carried
// from query to query:
//
//   out_i = sum_j <phi(q_i), phi(k_j)> v_j / ( sum_j <phi(q_i), phi(k_j)> + eps )
//
// Time and memory are linear in the sequence.
#pragma once

#include <memory>

#include "nn/attention/multi_head.h"

namespace mobius {

/// The features that the kernel takes. The mask may be causal; other masks throw Error, because
/// carried sums cannot leave out single pairs.
struct FeatureCall {
  Variable q;  // phi(q), [B, H, n_q, m]
  Variable k;  // phi(k), [B, G, n_k, m]
  Variable v;  // [B, G, n_k, d]
  AttentionMask mask;
  double eps;
};

/// -> [B, H, n_q, d].
Variable attention(const FeatureCall& call);
/// Returns the weights, [B, H, n_q, n_k].
Variable attention_weights(const FeatureCall& call);

/// A variant that is a FeatureCall. Generation carries its sums.
class FeatureAttention : public MultiHeadAttention {
 public:
  /// Throws ConfigError if the model asks for a bias by distance or for dropout of the weights,
  /// because there are neither scores nor weights.
  explicit FeatureAttention(const AttentionContext& context);

  std::unique_ptr<AttentionCache> make_cache() const override;

 protected:
  virtual FeatureCall call(const HeadInputs& in) const = 0;

  Variable attend(const HeadInputs& in) const override { return attention(call(in)); }
  Variable weights(const HeadInputs& in) const override { return attention_weights(call(in)); }
  Variable attend_cached(HeadInputs in, AttentionCache& cache) const override;
};

}  // namespace mobius
