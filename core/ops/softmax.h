// Softmax over the last dimension, under a mask.
#pragma once

#include "core/backend.h"
#include "core/ops/attention_mask.h"
#include "core/tensor.h"

namespace mobius {

/// weights[..., n_q, n_k] = softmax_j(scale * scores) over the keys that the mask allows; 0
/// elsewhere; a row that sees no key is 0.
Tensor masked_softmax(const Tensor& scores, double scale, const AttentionMask& mask);
/// grad_scores = scale * weights * (grad - sum_j grad weights).
Tensor softmax_backward(const Tensor& weights, const Tensor& grad, double scale);
/// Which keys each query sees, as u8 [..., n_q, n_k] with the mask's own batch dimensions.
Tensor materialize_mask(const AttentionMask& mask, std::int64_t n_q, std::int64_t n_k,
                        Device device = {});

class SoftmaxKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "softmax";

  /// The mask has at most `causal` and `mask`.
  virtual void masked_softmax(const Tensor& scores, double scale, const AttentionMask& mask,
                              const Tensor& weights) = 0;
  virtual void softmax_backward(const Tensor& weights, const Tensor& grad, double scale,
                                const Tensor& grad_scores) = 0;
  virtual void materialize_mask(const AttentionMask& mask, const Tensor& allowed) = 0;
};

}  // namespace mobius
