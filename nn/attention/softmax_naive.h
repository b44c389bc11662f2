// Softmax as its formula reads, for experiments on numerical stability.
//
//   w_ij = exp(s_ij) / sum_j exp(s_ij),   s_ij = scale <q_i, k_j>
//
// No maximum is subtracted: in f32 a score above 88.7 overflows, and the row is not a number. Not
// for training models that should work. Composed of tensor operations, in memory n_q n_k.
#pragma once

#include "nn/attention/softmax.h"

namespace mobius {

/// Shapes as softmax_attention().
Variable softmax_naive_attention(const Variable& q, const Variable& k, const Variable& v,
                                 const AttentionMask& mask, std::optional<double> scale = {},
                                 const AttentionExtras& extras = {});
/// Its weights, [B, H, n_q, n_k]; before dropout.
Variable softmax_naive_weights(const Variable& q, const Variable& k, const AttentionMask& mask,
                               std::optional<double> scale = {},
                               const AttentionExtras& extras = {});

/// The keys of softmax.
class SoftmaxNaiveOptions final : public SoftmaxOptions {
 public:
  std::shared_ptr<Attention> build(const AttentionContext& context) const override;
};

}  // namespace mobius
