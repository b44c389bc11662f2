// Rows of a table by index.
#pragma once

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

/// table[V, D] of any type, index (i32 or i64) of any shape -> [index..., D]. Throws Error on an
/// index outside [0, V).
Tensor gather_rows(const Tensor& table, const Tensor& index);
/// A zero table[n_rows, D] with rows[index..., D] added at their index.
Tensor scatter_add_rows(const Tensor& rows, const Tensor& index, std::int64_t n_rows);
/// Throws Error where an index lies outside [0, limit); `ignored`, where given, may lie there.
void require_indices_in_range(std::string_view op, const Tensor& index, std::int64_t limit,
                              const std::int64_t* ignored = nullptr);

class RowsKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "rows";

  /// out[r] = table[index[r]].
  virtual void gather_rows(const Tensor& table, const Tensor& index, const Tensor& out) = 0;
  /// table[index[r]] += rows[r], in the order of r for every row of the table. Accumulates.
  virtual void scatter_add_rows(const Tensor& rows, const Tensor& index, const Tensor& table) = 0;
};

}  // namespace mobius
