#include "autograd/ops.h"

namespace mobius {

BallRadiusVariables ball_radius(const Variable& length, const Variable& alpha,
                                const BallRadius& how) {
  constexpr std::string_view op = "ball_radius";
  const bool has_alpha = alpha.defined();
  const Saved saved_alpha = has_alpha ? Saved(op, alpha) : Saved();
  const Tensor alphas = has_alpha ? alpha.data() : Tensor();
  const BallRadiusResult result = ball_radius(length.data(), alphas, how);
  const std::vector<Variable> outputs = record_many(
      op, {length, alpha}, {result.r, result.one_minus_r, result.sharpness},
      [how, has_alpha, length = Saved(op, length), saved_alpha, r = Saved(op, result.r),
       one_minus_r = Saved(op, result.one_minus_r),
       sharpness = Saved(op, result.sharpness)](const Grads& grads, const NeedsGrad&) {
        const BallRadiusGrads of_inputs = ball_radius_backward(
            length.get(), has_alpha ? saved_alpha.get() : Tensor(), how,
            {r.get(), one_minus_r.get(), sharpness.get()}, {grads[0], grads[1], grads[2]});
        return Grads{of_inputs.length, of_inputs.alpha};
      });
  return {.r = outputs[0], .one_minus_r = outputs[1], .sharpness = outputs[2]};
}

Variable ball_log_factor(const Variable& r, const Variable& one_minus_r, const Tensor& counts,
                         const BallLogFactor& how) {
  constexpr std::string_view op = "ball_log_factor";
  return record(op, {r, one_minus_r}, ball_log_factor(r.data(), one_minus_r.data(), counts, how),
                [how, r = Saved(op, r), one_minus_r = Saved(op, one_minus_r)](const Grads& grads,
                                                                              const NeedsGrad&) {
                  const BallLogFactorGrads of_radius =
                      ball_log_factor_backward(r.get(), one_minus_r.get(), how, grads[0]);
                  return Grads{of_radius.r, of_radius.one_minus_r};
                });
}

}  // namespace mobius
