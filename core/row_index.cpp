#include "core/row_index.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/error.h"

namespace mobius {

RowIndex::RowIndex(std::string_view what, const Tensor& index, std::int64_t n_rows)
    : values_(index.contiguous()), n_rows_(n_rows) {
  if (index.dtype() != DType::i32 && index.dtype() != DType::i64) {
    throw_unsupported_dtype(what, index.dtype());
  }
  const std::vector<std::int64_t> values = index.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 0 && values[i] < n_rows) continue;
    throw Error("{}: index {} at position {} is outside [0, {})", what, values[i], i, n_rows);
  }
  const auto row_at = [&values](std::int64_t at) { return values[static_cast<std::size_t>(at)]; };
  std::vector<std::int64_t> positions(values.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::ranges::stable_sort(positions, {}, row_at);

  std::vector<std::int64_t> rows, offsets;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::int64_t row = row_at(positions[i]);
    if (!rows.empty() && rows.back() == row) continue;
    rows.push_back(row);
    offsets.push_back(static_cast<std::int64_t>(i));
  }
  offsets.push_back(std::ssize(positions));
  // With room for as many rows as there are positions: batches of one size take the same memory.
  const auto padded = [&](std::vector<std::int64_t>& numbers, std::int64_t room) {
    const std::int64_t n = std::ssize(numbers);
    numbers.resize(static_cast<std::size_t>(room));
    return Tensor::from(numbers, {room}, index.device()).slice(0, 0, n);
  };
  const std::int64_t n = index.numel();
  rows_ = padded(rows, n);
  offsets_ = padded(offsets, n + 1);
  positions_ = padded(positions, n);
}

RowIndex RowIndex::to(Device device) const {
  RowIndex moved = *this;
  for (Tensor* tensor : {&moved.values_, &moved.rows_, &moved.offsets_, &moved.positions_}) {
    *tensor = tensor->to(device);
  }
  return moved;
}

}  // namespace mobius
