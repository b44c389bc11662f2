// The position-wise half of a block.
#pragma once

#include <memory>

#include "nn/linear.h"

namespace mobius {

enum class MlpKind { swiglu, gelu };

/// What every MLP is built from.
struct MlpSizes {
  std::int64_t d_model;
  std::int64_t d_ff;  // hidden width
  bool bias;
  double output_scale;  // factor on the standard deviation of the last layer's initial weight
};

class Mlp : public Module {
 public:
  /// x[..., d_model] -> [..., d_model].
  virtual Variable forward(const Variable& x) const = 0;
};

/// w_down( silu(w_gate x) * w_up x ). Shazeer 2020.
class SwigluMlp : public Mlp {
 public:
  SwigluMlp(const Initializer& init, const MlpSizes& sizes);
  Variable forward(const Variable& x) const override;

 private:
  std::shared_ptr<Linear> w_gate_, w_up_, w_down_;
};

/// w_down( gelu(w_up x) ), with the exact gelu (erf).
class GeluMlp : public Mlp {
 public:
  GeluMlp(const Initializer& init, const MlpSizes& sizes);
  Variable forward(const Variable& x) const override;

 private:
  std::shared_ptr<Linear> w_up_, w_down_;
};

std::shared_ptr<Mlp> make_mlp(MlpKind kind, const Initializer& init, const MlpSizes& sizes);

}  // namespace mobius
