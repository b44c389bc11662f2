// Normalisation over the last dimension.
#pragma once

#include <memory>

#include "autograd/ops.h"
#include "nn/init.h"
#include "nn/module.h"

namespace mobius {

enum class NormKind { rms_norm, layer_norm };

class Norm : public Module {
 public:
  /// x[..., d] -> [..., d].
  virtual Variable forward(const Variable& x) const = 0;
};

/// weight x / sqrt(mean(x^2) + eps); weight starts at 1. Zhang and Sennrich 2019.
class RmsNorm : public Norm {
 public:
  RmsNorm(const Initializer& init, std::int64_t d, double eps = 1e-6);
  Variable forward(const Variable& x) const override { return rms_norm(x, weight_, eps_); }

 private:
  Variable weight_;
  double eps_;
};

/// weight (x - mean) / sqrt(var + eps) + bias; weight starts at 1, bias at 0. Ba et al. 2016.
class LayerNorm : public Norm {
 public:
  LayerNorm(const Initializer& init, std::int64_t d, double eps = 1e-5);
  Variable forward(const Variable& x) const override { return layer_norm(x, weight_, bias_, eps_); }

 private:
  Variable weight_;
  Variable bias_;
  double eps_;
};

std::shared_ptr<Norm> make_norm(NormKind kind, const Initializer& init, std::int64_t d);

}  // namespace mobius
