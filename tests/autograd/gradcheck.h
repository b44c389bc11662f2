// Checks gradients against central differences.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "autograd/variable.h"
#include "core/ops.h"

namespace mobius {

struct GradcheckOptions {
  double step = 1e-5;       // width of the central difference
  double tolerance = 1e-6;  // on norm(difference) / norm(numeric), per input
};

namespace gradcheck_detail {

using Function = std::function<Variable(const std::vector<Variable>&)>;

inline double weighted_sum(const Function& f, const std::vector<Tensor>& inputs,
                           const Tensor& weights) {
  const NoGradGuard no_grad;
  std::vector<Variable> variables;
  for (const Tensor& input : inputs) variables.emplace_back(input);
  return sum(mul(f(variables).data(), weights)).item();
}

// Central differences of weighted_sum in every element of inputs[which].
inline std::vector<double> numeric_gradient(const Function& f, std::vector<Tensor> inputs,
                                            std::size_t which, const Tensor& weights, double step) {
  const std::vector<double> original = inputs[which].to_vector<double>();
  const Shape shape = inputs[which].shape();
  const Device device = inputs[which].device();
  std::vector<double> gradient(original.size());
  for (std::size_t i = 0; i < original.size(); ++i) {
    const auto value_at = [&](double shifted) {
      std::vector<double> values = original;
      values[i] = shifted;
      inputs[which] = Tensor::from(values, shape, device);
      return weighted_sum(f, inputs, weights);
    };
    gradient[i] = (value_at(original[i] + step) - value_at(original[i] - step)) / (2 * step);
  }
  return gradient;
}

inline double norm(const std::vector<double>& x) {
  double total = 0;
  for (const double value : x) total += value * value;
  return std::sqrt(total);
}

}  // namespace gradcheck_detail

/// Checks every element of d<f(inputs), c>/d input, for a random c, in f64: inputs must be f64.
/// Returns an empty string when all agree, otherwise one line that says which input is off and by
/// how much.
inline std::string gradcheck(const gradcheck_detail::Function& f, const std::vector<Tensor>& inputs,
                             const GradcheckOptions& options = {}) {
  std::vector<Variable> variables;
  for (const Tensor& input : inputs) variables.emplace_back(input.clone(), true);
  const Variable out = f(variables);
  const Tensor weights =
      random_normal(out.shape(), 0, 1, {17, stream_id("gradcheck")}, DType::f64, out.device());
  backward(out, weights);
  for (std::size_t which = 0; which < inputs.size(); ++which) {
    const std::vector<double> numeric =
        gradcheck_detail::numeric_gradient(f, inputs, which, weights, options.step);
    if (!variables[which].grad().defined()) return fmt::format("input {} got no gradient", which);
    std::vector<double> difference = variables[which].grad().to_vector<double>();
    for (std::size_t i = 0; i < numeric.size(); ++i) difference[i] -= numeric[i];
    const double error =
        gradcheck_detail::norm(difference) / std::max(gradcheck_detail::norm(numeric), 1e-6);
    if (!(error < options.tolerance)) {
      return fmt::format("input {}: relative error {:.3g} of the gradient exceeds {:.3g}", which,
                         error, options.tolerance);
    }
  }
  return {};
}

}  // namespace mobius
