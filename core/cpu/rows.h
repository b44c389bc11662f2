// Access to the rows or matrices of a tensor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/cpu/kernels.h"
#include "core/tensor.h"

namespace mobius {

/// Rows of `row_length` elements that make a chunk of a parallel loop.
inline std::int64_t row_grain(std::int64_t row_length) {
  return std::max<std::int64_t>(1, elementwise_grain / std::max<std::int64_t>(1, row_length));
}

/// Where each sub-tensor of the last `kept` dimensions starts, in elements from x's first one, for
/// all leading indices in row-major order.
inline std::vector<std::int64_t> leading_offsets(const Tensor& x, int kept) {
  std::vector<std::int64_t> offsets{0};
  for (int dim = 0; dim < x.ndim() - kept; ++dim) {
    std::vector<std::int64_t> next;
    next.reserve(offsets.size() * static_cast<std::size_t>(x.size(dim)));
    for (const std::int64_t offset : offsets)
      for (std::int64_t i = 0; i < x.size(dim); ++i) next.push_back(offset + i * x.stride(dim));
    offsets = std::move(next);
  }
  return offsets;
}

/// The rows of x[..., N, D] by number; the last dimension of x is dense. `offsets` are
/// leading_offsets(x, 2).
template <class T>
struct RowsOf {
  const T* data;
  const std::int64_t* offsets;
  std::int64_t rows_each, row_stride, width;

  RowsOf(const Tensor& x, const std::vector<std::int64_t>& offsets_of_x)
      : data(x.data<T>()),
        offsets(offsets_of_x.data()),
        rows_each(x.size(-2)),
        row_stride(x.stride(-2)),
        width(x.size(-1)) {}
  const T* row(std::int64_t r) const {
    return data + offsets[r / rows_each] + r % rows_each * row_stride;
  }
};

}  // namespace mobius
