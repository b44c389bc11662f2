// Softmax as its formula reads, for experiments on numerical stability.
//
//   w_ij = exp(s_ij) / sum_j exp(s_ij),   s_ij = scale <q_i, k_j>
//
// No maximum is subtracted: in f32 a score above 88.7 overflows, and the row is not a number. Not
// for training models that should work. Composed of tensor operations, in memory n_q n_k.
#pragma once

#include "nn/attention/softmax.h"

namespace mobius {

/// The weights, [B, H, n_q, n_k], of softmax_call().
Variable softmax_naive_weights(const HeadInputs& in, std::optional<double> scale = {});

/// The keys of softmax.
class SoftmaxNaiveOptions final : public SoftmaxOptions {
 public:
  std::string kind() const override { return "softmax_naive"; }

 protected:
  std::shared_ptr<Attention> make(const AttentionContext& context) const override;
};

}  // namespace mobius
