// Attention weights as a matrix, for analysis and as the reference of the fused forms. They are
// composed of differentiable tensor operations and take memory n_q n_k.
#pragma once

#include <vector>

#include "autograd/ops.h"

namespace mobius {

/// The inputs of softmax variants besides q, k, v and the mask.
struct AttentionExtras {
  Variable distance_bias = {};  // undefined or [H, n_q + n_k - 1], see core/ops/attention.h
  double dropout = 0;           // of the weights
  RngKey dropout_key{};
};

/// The arguments of the fused kernel.
struct AttentionCall {
  AttentionSpec spec;
  AttentionVariables inputs;
};

inline Variable attention(const AttentionCall& call) { return attention(call.spec, call.inputs); }

/// Returns the weights w_ij, [B, H, n_q, n_k], before dropout; 0 if i does not see j. Ignores v.
/// Throws Error like attention(), but computes every score map without a softmax, too.
Variable attention_weights(const AttentionCall& call);

/// Returns <q_i, k_j>, [B, H, n_q, n_k], of q[B, H, n_q, m] and k[B, G, n_k, m]; 0 if i does not
/// see j.
Variable masked_products(const Variable& q, const Variable& k, const AttentionMask& mask);

/// Returns sum_j weights_ij v_j, for weights [B, H, n_q, n_k] and v[B, G, n_k, d_v].
Variable apply_weights(const Variable& weights, const Variable& v);

/// x[B, G, ...] -> [B, H, ...]: repeats each key/value head for the query heads that share it.
Variable for_every_head(const Variable& x, std::int64_t n_heads);

/// The mean entropy of the weights of all queries by head, in nats. The weights of a query are
/// first divided by their sum. A query without weights does not count.
class MeanEntropy {
 public:
  explicit MeanEntropy(std::int64_t n_heads)
      : sums_(static_cast<std::size_t>(n_heads)), counts_(sums_.size()) {}

  /// Adds the queries of weights [B, H, n_q, n_k].
  void add(const Tensor& weights);
  /// Returns one number per head; 0 if no query had weights.
  std::vector<double> value() const;

 private:
  std::vector<double> sums_, counts_;
};

}  // namespace mobius
