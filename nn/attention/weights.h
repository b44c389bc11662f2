// The weights of an attention as a matrix, for analysis and as the reference of the fused forms:
// the same formulas composed of tensor operations, differentiable, in memory n_q n_k.
#pragma once

#include <vector>

#include "autograd/ops.h"

namespace mobius {

/// What the softmax variants take besides q, k, v and the mask.
struct AttentionExtras {
  Variable distance_bias = {};  // undefined or [H, n_q + n_k - 1], see core/ops/attention.h
  double dropout = 0;           // of the weights
  RngKey dropout_key{};
};

/// A variant made ready for the fused kernel.
struct AttentionCall {
  AttentionSpec spec;
  AttentionVariables inputs;
};

inline Variable attention(const AttentionCall& call) { return attention(call.spec, call.inputs); }

/// w_ij of the call, [B, H, n_q, n_k], 0 where i does not see j; before dropout. v is not looked
/// at. Throws Error where attention() does, but that every score map has a form without a softmax.
Variable attention_weights(const AttentionCall& call);

/// <q_i, k_j>, [B, H, n_q, n_k], 0 where i does not see j, of q[B, H, n_q, m] and k[B, G, n_k, m].
Variable masked_products(const Variable& q, const Variable& k, const AttentionMask& mask);

/// sum_j weights_ij v_j, for weights [B, H, n_q, n_k] and v[B, G, n_k, d_v].
Variable apply_weights(const Variable& weights, const Variable& v);

/// x[B, G, ...] -> [B, H, ...]: each key/value head for all query heads that share it.
Variable for_every_head(const Variable& x, std::int64_t n_heads);

/// By head, the mean over all queries of the entropy of their weights, in nats. The weights of a
/// query are divided by their sum first; a query without weights is left out.
class MeanEntropy {
 public:
  explicit MeanEntropy(std::int64_t n_heads)
      : sums_(static_cast<std::size_t>(n_heads)), counts_(sums_.size()) {}

  /// Counts more queries: weights [B, H, n_q, n_k].
  void add(const Tensor& weights);
  /// One number a head; 0 where no query had weights.
  std::vector<double> value() const;

 private:
  std::vector<double> sums_, counts_;
};

}  // namespace mobius
