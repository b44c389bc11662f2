// Rows of a table by index.
#pragma once

#include "core/backend.h"
#include "core/row_index.h"
#include "core/tensor.h"

namespace mobius {

/// table[V, D] of any type, an index of any shape into its V rows -> [index..., D].
Tensor gather_rows(const Tensor& table, const RowIndex& index);
/// Checks the index (i32 or i64) first: throws Error on a value outside [0, V).
Tensor gather_rows(const Tensor& table, const Tensor& index);
/// A zero table[index.n_rows(), D] with rows[index..., D] added at their index.
Tensor scatter_add_rows(const Tensor& rows, const RowIndex& index);
/// Checks the index (i32 or i64) first: throws Error on a value outside [0, n_rows).
Tensor scatter_add_rows(const Tensor& rows, const Tensor& index, std::int64_t n_rows);

class RowsKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "rows";

  /// out[r] = table[index[r]].
  virtual void gather_rows(const Tensor& table, const Tensor& index, const Tensor& out) = 0;
  /// table[index[r]] += rows[r], in the order of r for every row of the table. Accumulates.
  virtual void scatter_add_rows(const Tensor& rows, const RowIndex& index, const Tensor& table) = 0;
};

}  // namespace mobius
