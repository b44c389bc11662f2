// Quadratic attention as one operation.
#pragma once

#include "autograd/variable.h"
#include "core/ops/attention.h"

namespace mobius {

/// Fused attention: shapes and formulas in core/ops/attention.h. Fields that core/ops/attention.h
/// allows to be undefined may be undefined here.
struct AttentionVariables {
  Variable q, k, v, key_bias{}, distance_bias{}, sharpness{}, log_factor{};
};
Variable attention(const AttentionSpec& spec, const AttentionVariables& inputs);

}  // namespace mobius
