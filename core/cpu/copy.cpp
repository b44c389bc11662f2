// Copies between strided views with conversion, fills. Rows that are dense on both sides move as
// they lie; a view with its dense dimension elsewhere (a transpose) is copied tile by tile, so that
// every cache line fetched is used whole. The compiler vectorises the conversions.
//
// Buffers: source and out must not overlap, unless both are the same dense view.
#include "core/ops/copy.h"

#include <algorithm>
#include <cstring>

#include "core/cpu/grain.h"
#include "core/cpu/kernels.h"
#include "core/cpu/strided.h"
#include "core/parallel.h"

namespace mobius {
namespace {

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (std::is_same_v<From, BFloat16>)
    return static_cast<To>(static_cast<float>(value));
  else if constexpr (std::is_same_v<To, BFloat16>)
    return BFloat16(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

// A run of n elements, `from_step` and `to_step` apart.
template <class From, class To>
void copy_row(const From* from, std::int64_t from_step, To* to, std::int64_t to_step,
              std::int64_t n) {
  if (from_step == 1 && to_step == 1) {
    if constexpr (std::is_same_v<From, To>)
      std::memmove(to, from, static_cast<std::size_t>(n) * sizeof(To));
    else
      for (std::int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
  } else if (from_step == 0 && to_step == 1) {
    std::fill_n(to, n, convert<To>(*from));
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i * to_step] = convert<To>(from[i * from_step]);
  }
}

using Dims = std::vector<StridedDim<2>>;  // of (source, out)

template <class From, class To>
void copy_rows(const Dims& dims, const From* from, To* to) {
  const StridedWalk<2> walk(dims);
  parallel_for(walk.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    walk.for_pieces(begin, end, [&](const auto& offsets, std::int64_t n) {
      copy_row(from + offsets[0], walk.step()[0], to + offsets[1], walk.step()[1], n);
    });
  });
}

// A tile: the source is read along its dense dimension, a cache line at a time, into a buffer from
// which out's rows are written.
constexpr std::int64_t tile_rows = 16, tile_columns = 64;

struct TileSteps {
  std::int64_t from_column, to_row, to_column;
};

template <class From, class To>
void copy_tile(const From* from, To* to, const TileSteps& steps, std::int64_t rows,
               std::int64_t columns) {
  To buffer[tile_rows][tile_columns];
  for (std::int64_t j = 0; j < columns; ++j) {
    const From* column = from + j * steps.from_column;
    for (std::int64_t i = 0; i < rows; ++i) buffer[i][j] = convert<To>(column[i]);
  }
  for (std::int64_t i = 0; i < rows; ++i)
    copy_row(buffer[i], 1, to + i * steps.to_row, steps.to_column, columns);
}

// `dense` is the dimension along which the source is dense; the last of `dims` is out's.
template <class From, class To>
void copy_tiles(Dims dims, std::size_t dense, const From* from, To* to) {
  const StridedDim<2> columns = dims.back(), rows = dims[dense];
  dims.pop_back();
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(dense));
  dims.push_back({1, {}});  // each row of the walk is one matrix
  const StridedWalk<2> matrices(dims);
  const TileSteps steps{columns.strides[0], rows.strides[1], columns.strides[1]};
  const std::int64_t strips = (rows.size + tile_rows - 1) / tile_rows;
  const std::int64_t grain = elementwise_grain / (tile_rows * columns.size);
  parallel_for(matrices.numel() * strips, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const auto [from_matrix, to_matrix] = matrices.row_offsets(task / strips);
      const std::int64_t i = task % strips * tile_rows;
      for (std::int64_t j = 0; j < columns.size; j += tile_columns)
        copy_tile(from + from_matrix + i + j * steps.from_column,
                  to + to_matrix + i * steps.to_row + j * steps.to_column, steps,
                  std::min(tile_rows, rows.size - i), std::min(tile_columns, columns.size - j));
    }
  });
}

template <class From, class To>
void copy_views(const Dims& dims, const From* from, To* to) {
  const auto is_dense = [](const StridedDim<2>& dim) { return dim.strides[0] == 1; };
  const auto dense = std::find_if(dims.begin(), dims.end(), is_dense);
  if (dense == dims.end() || dense == dims.end() - 1) return copy_rows(dims, from, to);
  copy_tiles(dims, static_cast<std::size_t>(dense - dims.begin()), from, to);
}

class CpuCopy final : public CopyKernels {
 public:
  void copy(const Tensor& source, const Tensor& out) override {
    if (out.numel() == 0) return;
    const Dims dims = collapse<2>(out.shape(), {&source.strides(), &out.strides()});
    dispatch_any(source.dtype(), [&](auto from) {
      using From = typename decltype(from)::type;
      dispatch_any(out.dtype(), [&](auto to) {
        using To = typename decltype(to)::type;
        copy_views(dims, source.data<From>(), out.data<To>());
      });
    });
  }

  void copy_to_host(const Tensor& source, void* host) override {
    if (source.bytes() != 0) std::memcpy(host, source.raw(), source.bytes());
  }

  void copy_from_host(const void* host, const Tensor& out) override {
    if (out.bytes() != 0) std::memcpy(out.raw(), host, out.bytes());
  }

  void fill(const Tensor& out, double value) override {
    const StridedWalk<1> walk(out.shape(), {&out.strides()});
    dispatch_any(out.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* data = out.data<T>();
      parallel_for(out.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
        walk.for_pieces(begin, end, [&](const auto& offsets, std::int64_t n) {
          T* row = data + offsets[0];
          const std::int64_t step = walk.step()[0];
          if (step == 1)
            std::fill_n(row, n, convert<T>(value));
          else
            for (std::int64_t i = 0; i < n; ++i) row[i * step] = convert<T>(value);
        });
      });
    });
  }

  void arange(const Tensor& out) override {
    dispatch_any(out.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* data = out.data<T>();
      for (std::int64_t i = 0; i < out.numel(); ++i) data[i] = convert<T>(i);
    });
  }
};

}  // namespace

CopyKernels& cpu_copy_kernels() {
  static CpuCopy kernels;
  return kernels;
}

}  // namespace mobius
