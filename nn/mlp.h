// The position-wise half of a block.
#pragma once

#include <memory>

#include "nn/linear.h"

namespace mobius {

enum class MlpKind { swiglu, gelu };

/// What an MLP is built from.
struct MlpSizes {
  std::int64_t d_model;
  std::int64_t d_ff;  // hidden width
  bool bias;
  double output_scale;  // factor on the standard deviation of the last layer's initial weight
};

///   swiglu  w_down( silu(w_gate x) * w_up x ). Shazeer 2020.
///   gelu    w_down( gelu(w_up x) ), with the exact gelu (erf)
class Mlp : public Module {
 public:
  Mlp(const Initializer& init, MlpKind kind, const MlpSizes& sizes);
  /// x[..., d_model] -> [..., d_model].
  Variable forward(const Variable& x) const;

 private:
  std::shared_ptr<Linear> w_gate_;  // null for gelu
  std::shared_ptr<Linear> w_up_, w_down_;
};

}  // namespace mobius
