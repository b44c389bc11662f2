// Matrix products.
#pragma once

#include "autograd/variable.h"
#include "core/ops/matmul.h"

namespace mobius {

Variable matmul(const Variable& a, const Variable& b);
/// x[..., K] weight[N, K]^T + bias[N]; bias may be undefined.
/// `precision` is that of the operands, forward and backward: x, weight and the gradient; the bias
/// and all sums stay f32.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias = {},
                ProductPrecision precision = ProductPrecision::full);
/// activation(linear(x, weight, bias)), in one pass over the result.
Variable linear_activation(const Variable& x, const Variable& weight, const Variable& bias,
                           Activation activation,
                           ProductPrecision precision = ProductPrecision::full);

}  // namespace mobius
