// Optimiser updates, in place on the parameters and their moments. One call updates all parameters.
#pragma once

#include <span>
#include <vector>

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

/// What an optimiser keeps of one parameter. All tensors are real, dense and alike.
struct ParameterUpdate {
  Tensor gradient;  ///< undefined: the parameter is left as it is
  Tensor value;
  std::vector<Tensor> moments;  ///< start as zeros: AdamW's m and v; SGD's momentum
  bool decays = true;           ///< whether weight decay acts on it
};

/// The elements of `scalars`, a dense f64 tensor in the memory of the device. Updates read from it
/// what changes from step to step, so that a captured graph does not contain it.
struct UpdateScalar {
  enum Index : std::uint8_t {
    learning_rate,
    step,    ///< 1 for the first update
    factor,  ///< multiplies the gradients; if it is 0, updates change nothing
    // Written by clip_gradients():
    norm,
    failed_step,      ///< the first whose norm was not finite; 0: none
    failed_gradient,  ///< its first gradient that was not finite; -1: each was, but not their norm
    count
  };
};

/// Scales the next update so that the norm of all gradients is at most max_norm (which may be
/// infinite). squares[n] (f64) holds the sum of squares of each gradient. Writes norm and factor.
/// From the first norm that is not finite on, the factor is 0 and the other scalars do not change.
void clip_gradients(const Tensor& squares, double max_norm, const Tensor& scalars);

struct AdamWSettings {
  double beta1, beta2, eps, weight_decay;
};
/// Adam with decoupled weight decay (Loshchilov and Hutter 2019; docs/MATH.md, section 5).
void adamw(const AdamWSettings& settings, std::span<const ParameterUpdate> updates,
           const Tensor& scalars);

struct SgdSettings {
  double momentum, weight_decay;
  bool nesterov;
};
/// Stochastic gradient descent as PyTorch defines it; momentum starts as the gradient. Without
/// momentum, no moment is needed.
void sgd(const SgdSettings& settings, std::span<const ParameterUpdate> updates,
         const Tensor& scalars);

class OptimizerKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "optimizer";

  virtual void clip_gradients(const Tensor& squares, double max_norm, const Tensor& scalars) = 0;
  virtual void adamw(const AdamWSettings& settings, std::span<const ParameterUpdate> updates,
                     const Tensor& scalars) = 0;
  virtual void sgd(const SgdSettings& settings, std::span<const ParameterUpdate> updates,
                   const Tensor& scalars) = 0;
};

}  // namespace mobius
