// The attention kernels of a CUDA device: on tensor cores where a call allows bf16 operands, else
// plain.
#include "core/cuda/attention/plain_path.h"
#include "core/cuda/attention/tensor_path.h"
#include "core/cuda/kernels.h"

namespace mobius {
namespace {

class CudaAttention final : public AttentionKernels {
 public:
  void attention(const AttentionSpec& spec, const AttentionInputs& inputs, const Tensor& out,
                 const Tensor& lse) override {
    if (cuda::tensor_path_serves(spec, inputs))
      cuda::tensor_attention(spec, inputs, out, lse);
    else
      cuda::plain_attention(spec, inputs, out, lse);
  }
  void attention_backward(const AttentionSpec& spec, const AttentionInputs& inputs,
                          const Tensor& out, const Tensor& lse, const Tensor& grad_out,
                          const AttentionGrads& grads) override {
    if (cuda::tensor_path_serves(spec, inputs))
      cuda::tensor_attention_backward(spec, inputs, out, lse, grad_out, grads);
    else
      cuda::plain_attention_backward(spec, inputs, out, lse, grad_out, grads);
  }
  void attention_topk(const AttentionSpec& spec, const AttentionInputs& inputs,
                      const Tensor& keys) override {
    cuda::attention_topk(spec, inputs, keys);
  }
};

}  // namespace

AttentionKernels& cuda_attention_kernels() { return only<CudaAttention>(); }

}  // namespace mobius
