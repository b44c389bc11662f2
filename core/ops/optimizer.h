// Optimiser updates, in place on parameters and what is remembered of their gradients: all
// parameters in one call.
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
  std::vector<Tensor> moments;  ///< that start as zeros: AdamW's m and v; SGD's momentum
  bool decays = true;           ///< whether weight decay acts on it
};

/// The elements of `scalars`, a dense f64 tensor in the memory of the device. Updates read from it
/// what changes from step to step: a captured graph must not bake that in.
struct UpdateScalar {
  enum Index : std::uint8_t {
    learning_rate,
    step,    ///< 1 for the first update
    factor,  ///< of the gradients; where it is 0, updates leave everything as it is
    // What clip_gradients() finds out:
    norm,
    failed_step,      ///< the first whose norm was not finite; 0: none
    failed_gradient,  ///< its first gradient that was not finite; -1: each was, but not their norm
    count
  };
};

/// Scales the update to come so that the norm of all gradients is at most max_norm (which may be
/// infinite), given the sum of the squares of each, squares[n] f64. Writes norm and factor. From
/// the first norm that is not finite on, the factor is 0, and no scalar but the factor changes.
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
/// Stochastic gradient descent as PyTorch defines it; momentum starts as the gradient. Where it is
/// 0, no moment is needed.
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
