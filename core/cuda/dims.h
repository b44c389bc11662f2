// The dimensions of several strided views of one shape, prepared for kernels. Plain C++.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "core/cpu/strided.h"
#include "core/round.h"
#include "core/tensor.h"

namespace mobius::cuda {

template <std::size_t N>
using Dims = std::vector<StridedDim<N>>;
/// Where N views begin, in elements.
template <std::size_t N>
using Offsets = std::array<std::int64_t, N>;

/// The merged dimensions of views of one shape, in the order of the strides of the first.
template <class... Views>
Dims<1 + sizeof...(Views)> dims_of(const Tensor& first, const Views&... others) {
  constexpr std::size_t n = 1 + sizeof...(Views);
  std::vector<std::size_t> order(first.shape().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return first.strides()[a] > first.strides()[b];
  });
  const auto in_order = [&](const std::vector<std::int64_t>& values) {
    std::vector<std::int64_t> ordered;
    for (const std::size_t i : order) ordered.push_back(values[i]);
    return ordered;
  };
  const std::array<Strides, n> strides{in_order(first.strides()), in_order(others.strides())...};
  std::array<const Strides*, n> views{};
  for (std::size_t k = 0; k < n; ++k) views[k] = &strides[k];
  return collapse<n>(in_order(first.shape()), views);
}

constexpr std::size_t most_dims = 8;
constexpr std::int64_t most_elements = std::int64_t{1} << 30;

/// Whether the elements can be counted, and reached from the first, in 32 bits.
template <std::size_t N>
bool fits_in_32_bits(const Dims<N>& dims, std::int64_t limit) {
  std::int64_t numel = 1;
  Offsets<N> last{};
  for (const StridedDim<N>& dim : dims) {
    numel *= dim.size;
    for (std::size_t k = 0; k < N; ++k) last[k] += (dim.size - 1) * dim.strides[k];
  }
  return numel <= limit && *std::max_element(last.begin(), last.end()) <= limit;
}

/// Calls fn(dims, offsets) for parts of the views, each of at most `most_dims` dimensions and
/// within 32 bits.
template <std::size_t N, class Fn>
void for_parts(Dims<N> dims, Offsets<N> offsets, const Fn& fn, std::int64_t limit = most_elements) {
  if (dims.size() <= most_dims && fits_in_32_bits(dims, limit)) return fn(dims, offsets);
  const auto larger = [](const auto& a, const auto& b) { return a.size < b.size; };
  const auto cut =
      dims.size() > most_dims ? dims.begin() : std::max_element(dims.begin(), dims.end(), larger);
  const StridedDim<N> whole = *cut;
  // Neighbouring parts of one element are left without the dimension.
  const std::int64_t step = dims.size() > most_dims ? 1 : ceil_div(whole.size, 2);
  for (std::int64_t begin = 0; begin < whole.size; begin += step) {
    Dims<N> part = dims;
    const auto at = part.begin() + (cut - dims.begin());
    at->size = std::min(step, whole.size - begin);
    if (at->size == 1) part.erase(at);
    for_parts(std::move(part), offsets, fn, limit);
    for (std::size_t k = 0; k < N; ++k) offsets[k] += step * whole.strides[k];
  }
}

}  // namespace mobius::cuda
