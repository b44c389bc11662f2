// Attention by feature products, linear in the sequence.
#pragma once

#include "autograd/variable.h"
#include "core/ops/linear_attention.h"

namespace mobius {

/// By feature products, linear in the sequence: see LinearAttentionInputs.
Variable linear_attention(const Variable& q, const Variable& k, const Variable& v, bool causal,
                          double eps);

}  // namespace mobius
