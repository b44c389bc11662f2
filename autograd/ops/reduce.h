// Sums, maxima and running sums.
#pragma once

#include <vector>

#include "autograd/variable.h"
#include "core/ops/reduce.h"

namespace mobius {

Variable sum(const Variable& x, const std::vector<int>& dims = {}, bool keepdim = false);
Variable mean(const Variable& x, const std::vector<int>& dims = {}, bool keepdim = false);
/// Ties share the gradient equally.
Variable max(const Variable& x, int dim, bool keepdim = false);
Variable cumsum(const Variable& x, int dim);

}  // namespace mobius
