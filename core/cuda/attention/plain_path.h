// The attention kernels of any real type and any size: products as they are, no tensor cores.
#pragma once

#include "core/ops/attention.h"

namespace mobius::cuda {

/// As the functions of AttentionKernels.
void plain_attention(const AttentionSpec& spec, const AttentionInputs& inputs, const Tensor& out,
                     const Tensor& lse);
void plain_attention_backward(const AttentionSpec& spec, const AttentionInputs& inputs,
                              const Tensor& out, const Tensor& lse, const Tensor& grad_out,
                              const AttentionGrads& grads);
void attention_topk(const AttentionSpec& spec, const AttentionInputs& inputs, const Tensor& keys);

}  // namespace mobius::cuda
