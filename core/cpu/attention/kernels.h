// The attention kernels of the CPU: forward.cpp, backward.cpp and threshold.cpp.
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
  void attention_threshold(const AttentionSpec& spec, const AttentionInputs& inputs,
                           std::int64_t topk, const AttentionThreshold& out) override;
};

}  // namespace mobius
