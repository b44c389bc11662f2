#include "nn/mlp.h"

namespace mobius {

Mlp::Mlp(const Initializer& init, MlpKind kind, const MlpSizes& sizes) {
  const auto [d_model, d_ff, bias, output_scale] = sizes;
  if (kind == MlpKind::swiglu) w_gate_ = make_child<Linear>("w_gate", init, d_model, d_ff, bias);
  w_up_ = make_child<Linear>("w_up", init, d_model, d_ff, bias);
  w_down_ = make_child<Linear>("w_down", init, d_ff, d_model, bias, output_scale);
}

Variable Mlp::forward(const Variable& x) const {
  return w_down_->forward(w_gate_ ? swiglu(w_gate_->forward(x), w_up_->forward(x))
                                  : w_up_->forward(x, Activation::gelu));
}

}  // namespace mobius
