// Quadratic attention as one operation.
#pragma once

#include "autograd/variable.h"
#include "core/ops/attention.h"

namespace mobius {

/// Fused attention: shapes and formulas in core/ops/attention.h. Fields that core/ops/attention.h
/// allows to be undefined may be undefined here.
using AttentionVariables = AttentionOperands<Variable>;
Variable attention(const AttentionSpec& spec, const AttentionVariables& inputs);

}  // namespace mobius
