#include "nn/mlp.h"

namespace mobius {

SwigluMlp::SwigluMlp(const Initializer& init, const MlpSizes& sizes) {
  const auto [d_model, d_ff, bias, output_scale] = sizes;
  w_gate_ = make_child<Linear>("w_gate", init, d_model, d_ff, bias);
  w_up_ = make_child<Linear>("w_up", init, d_model, d_ff, bias);
  w_down_ = make_child<Linear>("w_down", init, d_ff, d_model, bias, output_scale);
}

Variable SwigluMlp::forward(const Variable& x) const {
  return w_down_->forward(swiglu(w_gate_->forward(x), w_up_->forward(x)));
}

GeluMlp::GeluMlp(const Initializer& init, const MlpSizes& sizes) {
  const auto [d_model, d_ff, bias, output_scale] = sizes;
  w_up_ = make_child<Linear>("w_up", init, d_model, d_ff, bias);
  w_down_ = make_child<Linear>("w_down", init, d_ff, d_model, bias, output_scale);
}

Variable GeluMlp::forward(const Variable& x) const {
  return w_down_->forward(w_up_->forward(x, Activation::gelu));
}

std::shared_ptr<Mlp> make_mlp(MlpKind kind, const Initializer& init, const MlpSizes& sizes) {
  if (kind == MlpKind::swiglu) return std::make_shared<SwigluMlp>(init, sizes);
  return std::make_shared<GeluMlp>(init, sizes);
}

}  // namespace mobius
