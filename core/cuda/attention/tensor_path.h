// The attention kernels whose products are of bf16 operands on tensor cores, with f32 sums.
#pragma once

#include "core/ops/attention.h"

namespace mobius::cuda {

/// Whether these kernels take the call: its products may be rounded to bf16, and they have its
/// types and sizes.
bool tensor_path_serves(const AttentionSpec& spec, const AttentionInputs& inputs);

/// As AttentionKernels::attention() and attention_backward(), for a call that they serve.
void tensor_attention(const AttentionSpec& spec, const AttentionInputs& inputs, const Tensor& out,
                      const Tensor& lse);
void tensor_attention_backward(const AttentionSpec& spec, const AttentionInputs& inputs,
                               const Tensor& out, const Tensor& lse, const Tensor& grad_out,
                               const AttentionGrads& grads);

}  // namespace mobius::cuda
