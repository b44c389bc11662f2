// RMS norm and layer norm over the last dimension.
#pragma once

#include "autograd/variable.h"
#include "core/ops/norm.h"

namespace mobius {

Variable rms_norm(const Variable& x, const Variable& weight, double eps = 1e-6);
Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias,
                    double eps = 1e-5);

}  // namespace mobius
