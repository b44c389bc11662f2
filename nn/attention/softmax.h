// Scaled dot-product attention (Vaswani et al. 2017).
#pragma once

#include <memory>
#include <optional>

#include "nn/attention/attention.h"

namespace mobius {

/// softmax_j( scale <q_i, k_j> ) v_j over the keys that `mask` lets query i see; a query that sees
/// none gives a zero row. Without scale: 1 / sqrt(d).
/// q[B, H, n_q, d], k[B, H, n_k, d], v[B, H, n_k, d_v] -> [B, H, n_q, d_v].
Variable softmax_attention(const Variable& q, const Variable& k, const Variable& v,
                           const AttentionMask& mask, std::optional<double> scale = {});

class SoftmaxOptions : public AttentionOptions {
 public:
  std::optional<double> scale;  // null: 1 / sqrt(head dimension)

  void describe(Schema& schema) override;
  std::shared_ptr<Attention> build(const AttentionContext& context) const override;
};

}  // namespace mobius
