// Rotary position embedding.
#pragma once

#include "autograd/variable.h"
#include "core/ops/rope.h"

namespace mobius {

Variable rope(const Variable& x, double base, std::int64_t offset = 0);

}  // namespace mobius
