// One kernel for functions of the elements of several strided views, whatever their layout:
//
//   map<T, T, T>(Add(), out, a, b);
//
// The dimensions are put in order and merged (dims.h); rows are the last of them. A thread takes a
// pack of neighbours of a row, so that rows that are dense move 16 bytes an access. Index
// arithmetic takes 32 bits: larger tensors are cut (dims.h).
#pragma once

#include <cstdint>
#include <utility>

#include "core/cuda/dims.h"
#include "core/cuda/vector.cuh"
#include "core/tensor.h"

namespace mobius::cuda {

// ---- dimensions in a kernel

/// Division of n < 2^31 by a number that is known before the launch: a product and a shift
/// (Granlund and Montgomery 1994).
struct Divisor {
  std::uint32_t value = 1, multiplier = 1, shift = 0;

  Divisor() = default;
  explicit Divisor(std::int64_t divisor) : value(static_cast<std::uint32_t>(divisor)) {
    while ((std::int64_t{1} << shift) < divisor) ++shift;
    const std::uint64_t power = std::uint64_t{1} << shift;
    multiplier = static_cast<std::uint32_t>(((power - value) << 32) / value + 1);
  }
  /// Replaces n by the quotient, and returns the remainder.
  __device__ std::uint32_t divide(std::uint32_t& n) const {
    const std::uint32_t whole = n;
    n = (__umulhi(n, multiplier) + n) >> shift;
    return whole - n * value;
  }
};

/// N views as rows; all but the last dimension number the rows.
template <std::size_t N>
struct RowLayout {
  std::int32_t length = 1;  // of a row
  std::int32_t steps[N]{};  // between neighbours of a row
  std::uint32_t n_packs = 0;
  Divisor packs;  // of a row
  int n_outer = 0;
  Divisor sizes[most_dims]{};  // of the other dimensions, from the last
  std::int32_t strides[most_dims][N]{};

  RowLayout(const Dims<N>& dims, int width, bool is_aligned) {
    std::int64_t n_rows = 1;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const bool is_row = i + 1 == dims.size();
      std::int32_t* const to = is_row ? steps : strides[dims.size() - 2 - i];
      for (std::size_t k = 0; k < N; ++k) to[k] = static_cast<std::int32_t>(dims[i].strides[k]);
      if (is_row) {
        length = static_cast<std::int32_t>(dims[i].size);
        break;
      }
      sizes[dims.size() - 2 - i] = Divisor(dims[i].size);
      n_rows *= dims[i].size;
      ++n_outer;
    }
    const std::int64_t of_row =
        ceil_div<std::int64_t>(length + (is_aligned ? 0 : width - 1), width);
    packs = Divisor(of_row);
    n_packs = static_cast<std::uint32_t>(n_rows * of_row);
  }

  /// Where the row of pack number `pack` begins in each view; `pack` becomes its number in the row.
  struct Row {
    std::int32_t offsets[N]{};
  };
  __device__ Row row_of(std::uint32_t& pack) const {
    Row row;
    std::uint32_t rest = pack;
    pack = packs.divide(rest);
    for (int i = 0; i < n_outer; ++i) {
      const auto index = static_cast<std::int32_t>(sizes[i].divide(rest));
#pragma unroll
      for (std::size_t k = 0; k < N; ++k) row.offsets[k] += index * strides[i][k];
    }
    return row;
  }
};

/// Whether all rows of out begin at a border of packs.
template <int kWidth, std::size_t N, class Out>
bool has_aligned_rows(const Dims<N>& dims, const Out* out) {
  if (dims.empty() || dims.back().strides[0] != 1) return true;  // without borders
  return pack_shift<kWidth>(out) == 0 &&
         std::all_of(dims.begin(), dims.end() - 1,
                     [](const auto& dim) { return dim.strides[0] % kWidth == 0; });
}

// ---- the kernel

template <int kWidth, class Function, class Out, class... In>
__device__ void map_pack(const Function& f, Out* out, PackPlace<kWidth> place, std::int32_t step,
                         const Pack<In, kWidth>&... x) {
  Pack<Out, kWidth> y;
#pragma unroll
  for (int i = 0; i < kWidth; ++i)
    if (place.has(i)) y[i] = f(x[i]...);
  store(y, out, place, step);
}

template <int kWidth, class Function, class Out, class... In, std::size_t... k>
__device__ void map_row(const RowLayout<1 + sizeof...(In)>& layout, std::uint32_t pack,
                        const Function& f, std::index_sequence<k...>, Out* out, const In*... in) {
  const auto row = layout.row_of(pack);
  out += row.offsets[0];
  const int shift = layout.steps[0] == 1 ? pack_shift<kWidth>(out) : 0;
  const PackPlace<kWidth> place(static_cast<std::int64_t>(pack) * kWidth - shift, layout.length);
  if (place.is_empty()) return;
  map_pack(f, out, place, layout.steps[0],
           load(in + row.offsets[k + 1], place, layout.steps[k + 1])...);
}

template <int kWidth, class Function, class Out, class... In>
__global__ void map_kernel(RowLayout<1 + sizeof...(In)> layout, Function f, Out* out,
                           const In*... in) {
  const std::uint32_t pack = blockIdx.x * blockDim.x + threadIdx.x;
  if (pack < layout.n_packs)
    map_row<kWidth>(layout, pack, f, std::index_sequence_for<In...>(), out, in...);
}

template <int kWidth, class Function, class Out, class... In, std::size_t... k>
void launch_map(const Dims<1 + sizeof...(In)>& dims, const Offsets<1 + sizeof...(In)>& offsets,
                const Function& f, std::index_sequence<k...>, Out* out, const In*... in) {
  out += offsets[0];
  const RowLayout<1 + sizeof...(In)> layout(dims, kWidth, has_aligned_rows<kWidth>(dims, out));
  launch(map_kernel<kWidth, Function, Out, In...>, for_elements(layout.n_packs), layout, f, out,
         in + offsets[k + 1]...);
}

/// out = f(in...), element by element, of views of one shape, of which elements are read and
/// written as In and Out. An operand may be out itself.
template <class Out, class... In, class Function, class... Views>
void map(const Function& f, const Tensor& out, const Views&... in) {
  static_assert(sizeof...(In) == sizeof...(Views));
  constexpr std::size_t n = 1 + sizeof...(In);
  if (out.numel() == 0) return;
  for_parts<n>(dims_of(out, in...), {}, [&](const Dims<n>& dims, const Offsets<n>& offsets) {
    launch_map<pack_width<Out, In...>>(dims, offsets, f, std::index_sequence_for<In...>(),
                                       static_cast<Out*>(out.raw()),
                                       static_cast<const In*>(in.raw())...);
  });
}

}  // namespace mobius::cuda
