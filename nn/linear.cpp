#include "nn/linear.h"

namespace mobius {

Linear::Linear(const Initializer& init, std::int64_t in, std::int64_t out, bool bias, double gain)
    : weight_(register_parameter("weight", init.matrix("weight", out, in, gain))),
      products_(init.products()) {
  if (bias) bias_ = register_parameter("bias", init.zeros({out}));
}

Linear::Linear(const Initializer& init, std::int64_t in, const std::vector<std::int64_t>& outs,
               bool bias)
    : weight_(register_parameter("weight", init.stacked("weight", outs, in))),
      products_(init.products()) {
  if (bias) bias_ = register_parameter("bias", init.zeros({weight_.size(0)}));
}

Linear::Linear(const Variable& tied_weight, MatmulPrecision products)
    : weight_(share_parameter("weight", tied_weight)), products_(products) {}

Embedding::Embedding(const Initializer& init, std::int64_t n, std::int64_t d)
    : weight_(register_parameter("weight", init.matrix("weight", n, d))) {}

}  // namespace mobius
