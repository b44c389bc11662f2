#include "core/ops/rows.h"

#include <vector>

#include "core/ops/checks.h"

namespace mobius {

void require_indices_in_range(std::string_view op, const Tensor& index, std::int64_t limit,
                              const std::int64_t* ignored) {
  const std::vector<std::int64_t> values = index.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t value = values[i];
    if (value >= 0 && value < limit) continue;
    if (ignored && value == *ignored) continue;
    throw Error("{}: index {} at position {} is outside [0, {})", op, value, i, limit);
  }
}

Tensor gather_rows(const Tensor& table, const Tensor& index) {
  if (table.ndim() != 2) {
    throw ShapeError("gather_rows: table {}: expected [V, D]", to_string(table.shape()));
  }
  require_index("gather_rows", index, table);
  require_indices_in_range("gather_rows", index, table.size(0));
  Shape shape = index.shape();
  shape.push_back(table.size(1));
  Tensor out = Tensor::empty(std::move(shape), table.dtype(), table.device());
  kernels(table, &Backend::rows)->gather_rows(table.contiguous(), index.contiguous(), out);
  return out;
}

Tensor scatter_add_rows(const Tensor& rows, const Tensor& index, std::int64_t n_rows) {
  constexpr std::string_view op = "scatter_add_rows";
  require_real(op, rows);
  require_index(op, index, rows);
  Shape expected = index.shape();
  expected.push_back(rows.ndim() == 0 ? 0 : rows.size(-1));
  require_shape(op, "rows", rows, expected);
  require_indices_in_range(op, index, n_rows);
  Tensor table = Tensor::zeros({n_rows, expected.back()}, rows.dtype(), rows.device());
  kernels(rows, &Backend::rows)->scatter_add_rows(rows.contiguous(), index.contiguous(), table);
  return table;
}

}  // namespace mobius
