// Linear attention (Katharopoulos et al. 2020): products of positive features in place of the
// exponential, so that sums over keys are carried along instead of taken anew for each query.
//
//   phi(x) = elu(x) + 1
//   out_i  = phi(q_i) sum_j phi(k_j) v_j^T / (phi(q_i) . sum_j phi(k_j) + 1e-6)
//
// Time and memory are linear in the sequence.
#pragma once

#include <memory>

#include "nn/attention/attention.h"
#include "nn/attention/weights.h"

namespace mobius {

constexpr double linear_attention_eps = 1e-6;

/// q[B, H, n_q, d], k[B, G, n_k, d], v[B, G, n_k, d_v] -> [B, H, n_q, d_v]. The mask may be causal;
/// other masks throw Error: sums that are carried along cannot leave out single pairs.
Variable elu_linear_attention(const Variable& q, const Variable& k, const Variable& v,
                              const AttentionMask& mask);
/// Its weights, [B, H, n_q, n_k].
Variable elu_linear_weights(const Variable& q, const Variable& k, const AttentionMask& mask);

/// Throws Error where the mask is more than causal. `variant` names who asks.
void require_carried_sums(std::string_view variant, const AttentionMask& mask);

class LinearAttentionOptions : public AttentionOptions {
 public:
  void describe(Schema&) override {}
  std::shared_ptr<Attention> build(const AttentionContext& context) const override;
};

}  // namespace mobius
