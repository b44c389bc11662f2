#include "nn/norm.h"

namespace mobius {

RmsNorm::RmsNorm(const Initializer& init, std::int64_t d, double eps)
    : weight_(register_parameter("weight", init.full({d}, 1))), eps_(eps) {}

LayerNorm::LayerNorm(const Initializer& init, std::int64_t d, double eps)
    : weight_(register_parameter("weight", init.full({d}, 1))),
      bias_(register_parameter("bias", init.zeros({d}))),
      eps_(eps) {}

std::shared_ptr<Norm> make_norm(NormKind kind, const Initializer& init, std::int64_t d) {
  if (kind == NormKind::rms_norm) return std::make_shared<RmsNorm>(init, d);
  return std::make_shared<LayerNorm>(init, d);
}

}  // namespace mobius
