// Rows of a table by index.
#pragma once

#include "autograd/variable.h"
#include "core/ops/rows.h"

namespace mobius {

Variable gather_rows(const Variable& table, const RowIndex& index);
/// Checks the index first, as core's gather_rows() does.
Variable gather_rows(const Variable& table, const Tensor& index);

}  // namespace mobius
