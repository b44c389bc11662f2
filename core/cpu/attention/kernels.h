// The attention kernels of the CPU: forward.cpp (with the selection) and backward.cpp.
#pragma once

#include "core/cpu/kernels.h"
#include "core/ops/attention.h"

namespace mobius {

class CpuAttention final : public AttentionKernels {
 public:
  void attention(const AttentionSpec& spec, const AttentionInputs& inputs, const Tensor& out,
                 const Tensor& lse) override;
  void attention_backward(const AttentionSpec& spec, const AttentionInputs& inputs,
                          const Tensor& out, const Tensor& lse, const Tensor& grad_out,
                          const AttentionGrads& grads) override;
  void attention_topk(const AttentionSpec& spec, const AttentionInputs& inputs,
                      const Tensor& keys) override;
};

}  // namespace mobius
