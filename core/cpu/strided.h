// A walk over several strided views of one shape in row-major order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace mobius {

/// Calls fn with a word of the size of an element.
template <class Fn>
void dispatch_word(DType dtype, Fn&& fn) {
  switch (size_of(dtype)) {
    case 1:
      return fn(std::uint8_t{});
    case 2:
      return fn(std::uint16_t{});
    case 4:
      return fn(std::uint32_t{});
    default:
      return fn(std::uint64_t{});
  }
}

/// One dimension of N views: strides are in elements of each view.
template <std::size_t N>
struct StridedDim {
  std::int64_t size;
  std::array<std::int64_t, N> strides;
};

/// The dimensions of N views of `shape`, with sizes of 1 dropped and neighbours merged wherever
/// every view allows it: dense views become one dimension.
template <std::size_t N>
std::vector<StridedDim<N>> collapse(const Shape& shape,
                                    const std::array<const Strides*, N>& strides) {
  std::vector<StridedDim<N>> dims;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    StridedDim<N> dim{shape[i], {}};
    for (std::size_t k = 0; k < N; ++k) dim.strides[k] = (*strides[k])[i];
    bool merges = !dims.empty();
    for (std::size_t k = 0; k < N && merges; ++k)
      merges = dims.back().strides[k] == dim.strides[k] * dim.size;
    if (merges) {
      dim.size *= dims.back().size;
      dims.pop_back();
    }
    dims.push_back(dim);
  }
  return dims;
}

/// Visits the elements of N views as pieces of rows, a row being the last dimension.
template <std::size_t N>
class StridedWalk {
 public:
  using Offsets = std::array<std::int64_t, N>;

  explicit StridedWalk(std::vector<StridedDim<N>> dims) : outer_(std::move(dims)) {
    if (outer_.empty()) return;
    row_ = outer_.back();
    outer_.pop_back();
    for (const auto& dim : outer_) rows_ *= dim.size;
  }
  StridedWalk(const Shape& shape, const std::array<const Strides*, N>& strides)
      : StridedWalk(collapse(shape, strides)) {}

  std::int64_t numel() const { return rows_ * row_.size; }
  /// Distance between neighbours of a row, in each view.
  const Offsets& step() const { return row_.strides; }

  /// Where row `row` starts, in elements, in each view.
  Offsets row_offsets(std::int64_t row) const {
    Offsets offsets{};
    for (std::size_t i = outer_.size(); i-- > 0;) {
      const std::int64_t index = row % outer_[i].size;
      row /= outer_[i].size;
      for (std::size_t k = 0; k < N; ++k) offsets[k] += index * outer_[i].strides[k];
    }
    return offsets;
  }

  /// Calls fn(offsets, n) for each piece of a row among elements [begin, end): n elements from
  /// offsets[k] on in view k, step()[k] apart.
  template <class Fn>
  void for_pieces(std::int64_t begin, std::int64_t end, Fn&& fn) const {
    if (begin >= end) return;
    std::int64_t row = begin / row_.size, column = begin % row_.size;
    Offsets first = row_offsets(row);
    std::int64_t left = outer_.empty() ? 1 : outer_.back().size - row % outer_.back().size;
    while (true) {
      const std::int64_t n = std::min(end - begin, row_.size - column);
      Offsets offsets = first;
      for (std::size_t k = 0; k < N; ++k) offsets[k] += column * row_.strides[k];
      fn(offsets, n);
      begin += n;
      if (begin >= end) return;
      column = 0;
      ++row;
      if (--left > 0) {  // mostly the next row is a step away, without a division
        for (std::size_t k = 0; k < N; ++k) first[k] += outer_.back().strides[k];
      } else {
        first = row_offsets(row);
        left = outer_.back().size;
      }
    }
  }

 private:
  std::vector<StridedDim<N>> outer_;
  StridedDim<N> row_{1, {}};
  std::int64_t rows_ = 1;
};

}  // namespace mobius
