// Softmax under a mask.
#pragma once

#include "autograd/variable.h"
#include "core/ops/softmax.h"

namespace mobius {

Variable masked_softmax(const Variable& scores, double scale, const AttentionMask& mask);

}  // namespace mobius
