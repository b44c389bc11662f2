#include "autograd/ops.h"

namespace mobius {

Polar polar(const Variable& x) {
  constexpr std::string_view op = "polar";
  const PolarResult r = polar(x.data());
  const std::vector<Variable> outputs = record_many(
      op, {x}, {r.direction, r.length},
      [direction = Saved(op, r.direction), length = Saved(op, r.length)](const Grads& grads,
                                                                         const NeedsGrad&) {
        return Grads{polar_backward({direction.get(), length.get()}, grads[0], grads[1])};
      });
  return {.direction = outputs[0], .length = outputs[1]};
}

GaussianPointVariables gaussian_points(const Variable& x, const GaussianPoints& how) {
  constexpr std::string_view op = "gaussian_points";
  const GaussianPointsResult r = gaussian_points(x.data(), how);
  const std::vector<Variable> outputs = record_many(
      op, {x}, {r.points, r.squared_length},
      [x = Saved(op, x), how, points = Saved(op, r.points)](const Grads& grads, const NeedsGrad&) {
        return Grads{gaussian_points_backward(x.get(), how, points.get(), grads[0], grads[1])};
      });
  return {.points = outputs[0], .squared_length = outputs[1]};
}

}  // namespace mobius
