// Dropout.
#pragma once

#include "autograd/variable.h"
#include "core/ops/random.h"

namespace mobius {

/// The same key drops the same elements.
Variable dropout(const Variable& x, double p, RngKey key);

}  // namespace mobius
