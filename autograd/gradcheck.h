// Checks gradients against central differences.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/variable.h"

namespace mobius {

struct GradcheckOptions {
  double step = 1e-5;       // width of the central difference
  double tolerance = 1e-6;  // on norm(difference) / norm(numeric), per input
};

/// Checks every element of d<f(inputs), c>/d input, for a random c, in f64: inputs must be f64.
/// Returns an empty string when all agree, otherwise one line that says which input is off and by
/// how much.
std::string gradcheck(const std::function<Variable(const std::vector<Variable>&)>& f,
                      const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

}  // namespace mobius
