#include "autograd/ops.h"

namespace mobius {

Variable rms_norm(const Variable& x, const Variable& weight, double eps) {
  constexpr std::string_view op = "rms_norm";
  const NormResult result = rms_norm(x.data(), weight.data(), eps);
  return record(op, {x, weight}, result.y,
                [x = Saved(op, x), weight = Saved(op, weight), rstd = Saved(op, result.rstd)](
                    const Grads& grads, const NeedsGrad&) {
                  const NormGrads g =
                      rms_norm_backward(x.get(), weight.get(), rstd.get(), grads[0]);
                  return Grads{g.x, g.weight};
                });
}

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps) {
  constexpr std::string_view op = "layer_norm";
  const NormResult result = layer_norm(x.data(), weight.data(), bias.data(), eps);
  return record(op, {x, weight, bias}, result.y,
                [x = Saved(op, x), weight = Saved(op, weight), mean = Saved(op, result.mean),
                 rstd = Saved(op, result.rstd)](const Grads& grads, const NeedsGrad&) {
                  const NormGrads g =
                      layer_norm_backward(x.get(), weight.get(), mean.get(), rstd.get(), grads[0]);
                  return Grads{g.x, g.weight, g.bias};
                });
}

}  // namespace mobius
