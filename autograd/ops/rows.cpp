#include "autograd/ops.h"

namespace mobius {

Variable gather_rows(const Variable& table, const RowIndex& index) {
  return record("gather_rows", table, gather_rows(table.data(), index),
                [index](const Tensor& grad) { return scatter_add_rows(grad, index); });
}

Variable gather_rows(const Variable& table, const Tensor& index) {
  return gather_rows(table, RowIndex("gather_rows", index, table.size(0)));
}

}  // namespace mobius
