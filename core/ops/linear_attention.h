// Attention by feature products, linear in the sequence.
#pragma once

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

/// Attention by feature products:
///   out_i = sum_j <q_i, k_j> v_j / (sum_j <q_i, k_j> + eps),
/// over the keys that i sees: all of them, or the causal ones. q and k are features (docs/MATH.md,
/// section 4), M of them; shapes, strides and heads are those of AttentionInputs
/// (core/ops/attention.h), with M for D. Causal attention needs Nk >= Nq.
///
/// Attention that is not `normalized` is the numerator alone and takes no eps. It may add the sums
/// to `initial`, and a causal one may leave out the `lag` newest keys of each query. It takes any
/// Nk.
struct LinearAttentionInputs {
  Tensor q, k, v;
  bool causal = false;
  double eps = 0;
  bool normalized = true;
  std::int64_t lag = 0;
  Tensor initial = {};  // undefined, or [B, H, Nq, Dv] strided like q
};

struct LinearAttentionGrads {
  Tensor q, k, v;  // that of `initial` is grad_out
};

struct LinearAttentionResult {
  Tensor out;          // as in AttentionResult
  Tensor denominator;  // [B, H, Nq], kept for the backward pass; undefined unless normalized
};
LinearAttentionResult linear_attention(const LinearAttentionInputs& inputs);
/// Reads `result` only if the attention is normalized.
LinearAttentionGrads linear_attention_backward(const LinearAttentionInputs& inputs,
                                               const LinearAttentionResult& result,
                                               const Tensor& grad_out);

class LinearAttentionKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "linear_attention";

  /// out is strided as that of AttentionKernels, grad_out too, and the gradients except along their
  /// last dimension. The denominator is undefined unless the attention is normalized; in the
  /// backward pass, so is out. There is no lag, and Nk >= Nq if it is causal.
  virtual void linear_attention(const LinearAttentionInputs& inputs, const Tensor& out,
                                const Tensor& denominator) = 0;
  virtual void linear_attention_backward(const LinearAttentionInputs& inputs, const Tensor& out,
                                         const Tensor& denominator, const Tensor& grad_out,
                                         const LinearAttentionGrads& grads) = 0;
};

}  // namespace mobius
