// Optimiser updates, in place on a parameter and what is remembered of its gradients.
#pragma once

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

struct AdamWStep {
  double lr, beta1, beta2, eps, weight_decay;
  std::int64_t step;  // 1 for the first update
};

struct SgdStep {
  double lr, momentum, weight_decay;
  bool nesterov;
  std::int64_t step;  // 1 for the first update: momentum starts as the gradient
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019; docs/MATH.md, section 5). All four
/// tensors are real, dense and alike; the moments m and v start as zeros. The caller bumps
/// versions.
void adamw(const AdamWStep& s, const Tensor& grad, const Tensor& parameter, const Tensor& m,
           const Tensor& v);
/// `momentum` may be undefined where s.momentum is 0.
void sgd(const SgdStep& s, const Tensor& grad, const Tensor& parameter, const Tensor& momentum);

class OptimizerKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "optimizer";

  virtual void adamw(const AdamWStep& s, const Tensor& grad, const Tensor& parameter,
                     const Tensor& m, const Tensor& v) = 0;
  virtual void sgd(const SgdStep& s, const Tensor& grad, const Tensor& parameter,
                   const Tensor& momentum) = 0;
};

}  // namespace mobius
