// The elementwise kernels of a CUDA device: unary.cu (with SwiGLU) and binary.cu (with comparison,
// selection and the in-place forms).
#pragma once

#include "core/cuda/kernels.h"
#include "core/ops/elementwise.h"

namespace mobius::cuda {

class CudaElementwise final : public ElementwiseKernels {
 public:
  void unary(const Unary& f, const Tensor& x, const Tensor& y) override;
  void unary_backward(const Unary& f, const Tensor& x, const Tensor& y, const Tensor& grad_y,
                      const Tensor& grad_x) override;
  void swiglu(const Tensor& gate, const Tensor& up, const Tensor& out) override;
  void swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& grad_out,
                       const Tensor& grad_gate, const Tensor& grad_up) override;
  void binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out) override;
  void compare(CompareOp op, const Tensor& a, const Tensor& b, const Tensor& out) override;
  void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& out) override;
  void add_in_place(const Tensor& out, const Tensor& x) override;
  void scale_in_place(const Tensor& out, double factor) override;
};

}  // namespace mobius::cuda
