#include "core/ops/rows.h"

#include "core/ops/checks.h"

namespace mobius {
namespace {

RowIndex checked(std::string_view op, const Tensor& like, const Tensor& index,
                 std::int64_t n_rows) {
  require_index(op, "index", index, like);
  return {op, index, n_rows};
}

void require_table(const Tensor& table) {
  if (table.ndim() == 2) return;
  throw ShapeError("gather_rows: table {}: expected [V, D]", to_string(table.shape()));
}

}  // namespace

Tensor gather_rows(const Tensor& table, const RowIndex& index) {
  constexpr std::string_view op = "gather_rows";
  require_table(table);
  require_same_device(op, "index", table, index.values());
  if (table.size(0) != index.n_rows()) {
    throw ShapeError("{}: table {} for an index into {} rows", op, to_string(table.shape()),
                     index.n_rows());
  }
  Shape shape = index.shape();
  shape.push_back(table.size(1));
  Tensor out = Tensor::empty(std::move(shape), table.dtype(), table.device());
  kernels(table, &Backend::rows)->gather_rows(table.contiguous(), index.values(), out);
  return out;
}

Tensor gather_rows(const Tensor& table, const Tensor& index) {
  require_table(table);
  return gather_rows(table, checked("gather_rows", table, index, table.size(0)));
}

Tensor scatter_add_rows(const Tensor& rows, const RowIndex& index) {
  constexpr std::string_view op = "scatter_add_rows";
  require_real(op, rows);
  require_same_device(op, "index", rows, index.values());
  Shape expected = index.shape();
  expected.push_back(rows.ndim() == 0 ? 0 : rows.size(-1));
  require_shape(op, "rows", rows, expected);
  Tensor table = Tensor::zeros({index.n_rows(), expected.back()}, rows.dtype(), rows.device());
  kernels(rows, &Backend::rows)->scatter_add_rows(rows.contiguous(), index, table);
  return table;
}

Tensor scatter_add_rows(const Tensor& rows, const Tensor& index, std::int64_t n_rows) {
  return scatter_add_rows(rows, checked("scatter_add_rows", rows, index, n_rows));
}

}  // namespace mobius
