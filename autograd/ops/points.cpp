#include "autograd/ops/points.h"

#include <utility>

namespace mobius {

Polar polar(const Variable& x) {
  constexpr std::string_view op = "polar";
  PolarResult result = polar(x.data());
  const Saved direction(op, result.direction), length(op, result.length);
  std::vector<Variable> outputs =
      record_many(op, {x}, {std::move(result.direction), std::move(result.length)},
                  [direction, length](const std::vector<Tensor>& grads, const NeedsGrad&) {
                    return std::vector<Tensor>{
                        polar_backward({direction.get(), length.get()}, grads[0], grads[1])};
                  });
  return {.direction = std::move(outputs[0]), .length = std::move(outputs[1])};
}

GaussianPointVariables gaussian_points(const Variable& x, const GaussianPoints& how) {
  constexpr std::string_view op = "gaussian_points";
  GaussianPointsResult result = gaussian_points(x.data(), how);
  const Saved points(op, result.points);
  std::vector<Variable> outputs = record_many(
      op, {x}, {std::move(result.points), std::move(result.squared_length)},
      [x = Saved(op, x), how, points](const std::vector<Tensor>& grads, const NeedsGrad&) {
        return std::vector<Tensor>{
            gaussian_points_backward(x.get(), how, points.get(), grads[0], grads[1])};
      });
  return {.points = std::move(outputs[0]), .squared_length = std::move(outputs[1])};
}

}  // namespace mobius
