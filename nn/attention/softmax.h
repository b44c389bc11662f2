// Scaled dot-product attention (Vaswani et al. 2017).
//
//   out_i = sum_j softmax_j( scale <q_i, k_j> ) v_j
#pragma once

#include <memory>
#include <optional>

#include "nn/attention/attention.h"
#include "nn/attention/weights.h"

namespace mobius {

/// softmax_j( scale <q_i, k_j> ) v_j over the keys that `mask` lets query i see; a query that sees
/// none gives a zero row. Without scale: 1 / sqrt(d); one that is not above 0 throws Error.
/// q[B, H, n_q, d], k[B, G, n_k, d], v[B, G, n_k, d_v] -> [B, H, n_q, d_v].
Variable softmax_attention(const Variable& q, const Variable& k, const Variable& v,
                           const AttentionMask& mask, std::optional<double> scale = {},
                           const AttentionExtras& extras = {});
/// Its weights, [B, H, n_q, n_k].
Variable softmax_weights(const Variable& q, const Variable& k, const AttentionMask& mask,
                         std::optional<double> scale = {}, const AttentionExtras& extras = {});

/// Softmax attention made ready, for its relatives.
AttentionCall softmax_call(const Variable& q, const Variable& k, const Variable& v,
                           const AttentionMask& mask, std::optional<double> scale,
                           const AttentionExtras& extras);

class SoftmaxOptions : public AttentionOptions {
 public:
  std::optional<double> scale;  // null: 1 / sqrt(head dimension)

  void describe(Schema& schema) override;
  std::shared_ptr<Attention> build(const AttentionContext& context) const override;
};

}  // namespace mobius
