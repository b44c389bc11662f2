#include "autograd/ops/norm.h"

#include <utility>

namespace mobius {

Variable rms_norm(const Variable& x, const Variable& weight, double eps) {
  NormResult result = rms_norm(x.data(), weight.data(), eps);
  return record(
      "rms_norm", {x, weight}, std::move(result.y),
      [x = Saved("rms_norm", x), weight = Saved("rms_norm", weight),
       rstd = Saved("rms_norm", result.rstd)](const std::vector<Tensor>& grads, const NeedsGrad&) {
        NormGrads g = rms_norm_backward(x.get(), weight.get(), rstd.get(), grads[0]);
        return std::vector<Tensor>{std::move(g.x), std::move(g.weight)};
      });
}

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps) {
  NormResult result = layer_norm(x.data(), weight.data(), bias.data(), eps);
  return record(
      "layer_norm", {x, weight, bias}, std::move(result.y),
      [x = Saved("layer_norm", x), weight = Saved("layer_norm", weight),
       mean = Saved("layer_norm", result.mean), rstd = Saved("layer_norm", result.rstd)](
          const std::vector<Tensor>& grads, const NeedsGrad&) {
        NormGrads g = layer_norm_backward(x.get(), weight.get(), mean.get(), rstd.get(), grads[0]);
        return std::vector<Tensor>{std::move(g.x), std::move(g.weight), std::move(g.bias)};
      });
}

}  // namespace mobius
