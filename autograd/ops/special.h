// Special functions.
#pragma once

#include "autograd/variable.h"
#include "core/ops/special.h"

namespace mobius {

/// log 2F1(a, b; c; x), 0 <= x < 1.
Variable log_hyp2f1(double a, double b, double c, const Variable& x);

}  // namespace mobius
