// The index of gather_rows() and scatter_add_rows().
#pragma once

#include <cstdint>
#include <string_view>

#include "core/tensor.h"

namespace mobius {

/// An index into the rows of a table. The constructor checks and sorts it on the host, so that
/// later users need not read it back from a device.
///
/// The positions of the index are sorted into one bucket for each row of the table that occurs:
/// bucket u holds positions[offsets[u] .. offsets[u + 1]), in ascending order, and they all name
/// row rows[u]. So the additions to a row have a fixed order and depend on no other row.
class RowIndex {
 public:
  RowIndex() = default;
  /// `index` is i32 or i64, of any shape, and is read back from a device. Throws Error, naming
  /// `what`, if a value lies outside [0, n_rows).
  RowIndex(std::string_view what, const Tensor& index, std::int64_t n_rows);

  /// Returns this index itself if it is on that device.
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
