// Normalisation over the last dimension.
#pragma once

#include "autograd/ops.h"
#include "nn/init.h"
#include "nn/module.h"

namespace mobius {

enum class NormKind { rms_norm, layer_norm };

///   rms_norm    weight x / sqrt(mean(x^2) + 1e-6). Zhang and Sennrich 2019.
///   layer_norm  weight (x - mean) / sqrt(var + 1e-5) + bias. Ba et al. 2016.
/// The weight starts at 1, the bias at 0.
class Norm : public Module {
 public:
  Norm(const Initializer& init, NormKind kind, std::int64_t d);
  /// x[..., d] -> [..., d].
  Variable forward(const Variable& x) const;

 private:
  Variable weight_;
  Variable bias_;  // undefined for rms_norm
};

}  // namespace mobius
