// Softmax without subtracting the maximum, for experiments on numerical stability.
//
//   w_ij = exp(s_ij) / sum_j exp(s_ij),   s_ij = scale <q_i, k_j>
//
// In f32 a score above 88.7 overflows, and the row becomes NaN. The form is composed of tensor
// operations and takes memory n_q n_k.
#pragma once

#include "nn/attention/softmax.h"

namespace mobius {

/// Returns the weights of softmax_call(), [B, H, n_q, n_k].
Variable softmax_naive_weights(const HeadInputs& in, std::optional<double> scale = {});

class SoftmaxNaiveOptions final : public SoftmaxOptions {
 public:
  std::string kind() const override { return "softmax_naive"; }

 protected:
  std::shared_ptr<Attention> make(const AttentionContext& context) const override;
};

}  // namespace mobius
