#include "autograd/ops/rows.h"

#include <utility>

namespace mobius {

Variable gather_rows(const Variable& table, const Tensor& index) {
  return record("gather_rows", {table}, gather_rows(table.data(), index),
                [index = Saved("gather_rows", index), n_rows = table.size(0)](
                    const std::vector<Tensor>& grads, const NeedsGrad&) {
                  return std::vector<Tensor>{scatter_add_rows(grads[0], index.get(), n_rows)};
                });
}

}  // namespace mobius
