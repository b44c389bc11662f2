// Rows of a table, chosen once on the host: what gather_rows() and scatter_add_rows() go by.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/tensor.h"

namespace mobius {

/// An index into the rows of a table, checked and sorted on the host when it is made, so that
/// nothing that uses it later has to read it back from a device.
///
/// The positions of the index are sorted into one bucket for each row of the table that occurs:
/// bucket u holds positions[offsets[u] .. offsets[u + 1]), in ascending order, and they all name
/// row rows[u]. So each row of a table collects its additions on its own, in a fixed order.
class RowIndex {
 public:
  RowIndex() = default;
  /// `index` is i32 or i64, of any shape, on any device; one that is not the host's is read.
  /// Throws Error, naming `what`, where a value lies outside [0, n_rows).
  RowIndex(std::string_view what, const Tensor& index, std::int64_t n_rows);

  /// This index itself where it lies on that device already.
  RowIndex to(Device device) const;

  const Shape& shape() const { return values_.shape(); }
  std::int64_t numel() const { return values_.numel(); }
  Device device() const { return values_.device(); }
  /// Number of rows of the table.
  std::int64_t n_rows() const { return n_rows_; }
  /// [...] i32 or i64, as given.
  const Tensor& values() const { return values_; }
  /// [U] i64: the rows that occur, ascending.
  const Tensor& rows() const { return rows_; }
  /// [U + 1] i64.
  const Tensor& offsets() const { return offsets_; }
  /// [numel()] i64.
  const Tensor& positions() const { return positions_; }

 private:
  Tensor values_;
  Tensor rows_;
  Tensor offsets_;
  Tensor positions_;
  std::int64_t n_rows_ = 0;
};

}  // namespace mobius
