#include "nn/norm.h"

namespace mobius {

Norm::Norm(const Initializer& init, NormKind kind, std::int64_t d)
    : weight_(register_parameter("weight", init.full({d}, 1))) {
  if (kind == NormKind::layer_norm) bias_ = register_parameter("bias", init.zeros({d}));
}

Variable Norm::forward(const Variable& x) const {
  return bias_.defined() ? layer_norm(x, weight_, bias_, 1e-5) : rms_norm(x, weight_, 1e-6);
}

}  // namespace mobius
