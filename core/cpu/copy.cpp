// Copies between strided views with conversion, and fills. Rows that are dense on both sides are
// copied directly. A view whose dense dimension is another one (a transpose) is copied tile by
// tile, so that all of each fetched cache line is used. Elements move as words of their size; types
// are converted between two dense rows, so that no loop is compiled for a pair of types and a
// layout.
//
// Buffers: source and out must not overlap, unless both are the same dense view.
#include "core/ops/copy.h"

#include <algorithm>
#include <cstring>

#include "core/cpu/kernels.h"
#include "core/cpu/strided.h"
#include "core/parallel.h"
#include "core/round.h"

namespace mobius {
namespace {

// ---- rows of words of 1, 2, 4 or 8 bytes

/// A run of n words, `from_step` and `to_step` apart.
template <class Word>
void move_row(const Word* from, std::int64_t from_step, Word* to, std::int64_t to_step,
              std::int64_t n) {
  if (from_step == 1 && to_step == 1)
    std::memmove(to, from, static_cast<std::size_t>(n) * sizeof(Word));
  else if (from_step == 0 && to_step == 1)
    std::fill_n(to, n, *from);
  else
    for (std::int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
}

// ---- conversions of dense rows

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<From, BFloat16>)
    return static_cast<To>(static_cast<float>(value));
  else if constexpr (std::is_same_v<To, BFloat16>)
    return BFloat16(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

using ConvertRow = void (*)(const void* from, void* to, std::int64_t n);

template <class From, class To>
void convert_row(const void* from, void* to, std::int64_t n) {
  const From* x = static_cast<const From*>(from);
  To* y = static_cast<To*>(to);
  for (std::int64_t i = 0; i < n; ++i) y[i] = convert<To>(x[i]);
}

/// Returns nullptr if the types are equal.
ConvertRow conversion(DType from_type, DType to_type) {
  ConvertRow found = nullptr;
  dispatch_any(from_type, [&](auto from) {
    dispatch_any(to_type, [&](auto to) {
      using From = typename decltype(from)::type;
      using To = typename decltype(to)::type;
      if constexpr (!std::is_same_v<From, To>) found = convert_row<From, To>;
    });
  });
  return found;
}

// ---- views

using Dims = std::vector<StridedDim<2>>;  // of (source, out)

constexpr std::int64_t block = 512;  // elements converted at a time

/// Copies words of From to words of To, through `convert` unless that is null.
template <class From, class To>
struct Copier {
  ConvertRow convert;

  /// A run of n elements.
  void row(const From* from, std::int64_t from_step, To* to, std::int64_t to_step,
           std::int64_t n) const {
    if constexpr (std::is_same_v<From, To>) {
      if (!convert) return move_row(from, from_step, to, to_step, n);
    }
    if (from_step == 1 && to_step == 1) return convert(from, to, n);
    From source[block];
    To converted[block];
    for (std::int64_t i = 0; i < n; i += block) {
      const std::int64_t count = std::min(block, n - i);
      move_row(from + i * from_step, from_step, source, 1, count);
      To* const dense = to_step == 1 ? to + i : converted;
      convert(source, dense, count);
      if (to_step != 1) move_row(converted, 1, to + i * to_step, to_step, count);
    }
  }

  void rows(const Dims& dims, const From* from, To* to) const {
    const StridedWalk<2> walk(dims);
    parallel_for(walk.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
      walk.for_pieces(begin, end, [&](const auto& offsets, std::int64_t n) {
        row(from + offsets[0], walk.step()[0], to + offsets[1], walk.step()[1], n);
      });
    });
  }

  // Copies a tile: reads the source along its dense dimension, a cache line at a time, into a
  // buffer, and writes the rows of out from there.
  static constexpr std::int64_t tile_rows = 16, tile_columns = 64;
  struct TileSteps {
    std::int64_t from_column, to_row, to_column;
  };

  void tile(const From* from, To* to, const TileSteps& steps, std::int64_t rows,
            std::int64_t columns) const {
    From buffer[tile_rows][tile_columns];
    for (std::int64_t j = 0; j < columns; ++j) {
      const From* column = from + j * steps.from_column;
      for (std::int64_t i = 0; i < rows; ++i) buffer[i][j] = column[i];
    }
    for (std::int64_t i = 0; i < rows; ++i)
      row(buffer[i], 1, to + i * steps.to_row, steps.to_column, columns);
  }

  /// `dense` is the dimension along which the source is dense; the last of `dims` is out's.
  void tiles(Dims dims, std::size_t dense, const From* from, To* to) const {
    const StridedDim<2> columns = dims.back(), rows = dims[dense];
    dims.pop_back();
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(dense));
    dims.push_back({1, {}});  // each row of the walk is one matrix
    const StridedWalk<2> matrices(dims);
    const TileSteps steps{columns.strides[0], rows.strides[1], columns.strides[1]};
    const std::int64_t strips = ceil_div(rows.size, tile_rows);
    const std::int64_t grain = elementwise_grain / (tile_rows * columns.size);
    parallel_for_each(matrices.numel() * strips, grain, [&](std::int64_t task) {
      const auto [from_matrix, to_matrix] = matrices.row_offsets(task / strips);
      const std::int64_t i = task % strips * tile_rows;
      for (std::int64_t j = 0; j < columns.size; j += tile_columns)
        tile(from + from_matrix + i + j * steps.from_column,
             to + to_matrix + i * steps.to_row + j * steps.to_column, steps,
             std::min(tile_rows, rows.size - i), std::min(tile_columns, columns.size - j));
    });
  }

  void views(const Dims& dims, const From* from, To* to) const {
    const auto is_dense = [](const StridedDim<2>& dim) { return dim.strides[0] == 1; };
    const auto dense = std::find_if(dims.begin(), dims.end(), is_dense);
    if (dense == dims.end() || dense == dims.end() - 1) return rows(dims, from, to);
    tiles(dims, static_cast<std::size_t>(dense - dims.begin()), from, to);
  }
};

// ---- kernels

class CpuCopy final : public CopyKernels {
 public:
  void copy(const Tensor& source, const Tensor& out) override {
    if (out.numel() == 0) return;
    const Dims dims = collapse<2>(out.shape(), {&source.strides(), &out.strides()});
    const ConvertRow convert = conversion(source.dtype(), out.dtype());
    dispatch_word(source.dtype(), [&](auto from) {
      dispatch_word(out.dtype(), [&](auto to) {
        using From = decltype(from);
        using To = decltype(to);
        Copier<From, To>{convert}.views(dims, static_cast<const From*>(source.raw()),
                                        static_cast<To*>(out.raw()));
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
    dispatch_any(out.dtype(), [&]<class T>(TypeTag<T>) {
      T* const data = out.data<T>();
      const T element = convert<T>(value);
      const std::int64_t step = walk.step()[0];
      parallel_for(out.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
        walk.for_pieces(begin, end, [&](const auto& offsets, std::int64_t n) {
          move_row(&element, 0, data + offsets[0], step, n);
        });
      });
    });
  }

  void arange(const Tensor& out) override {
    dispatch_any(out.dtype(), [&]<class T>(TypeTag<T>) {
      T* const data = out.data<T>();
      for (std::int64_t i = 0; i < out.numel(); ++i) data[i] = convert<T>(i);
    });
  }
};

}  // namespace

CopyKernels& cpu_copy_kernels() { return only<CpuCopy>(); }

}  // namespace mobius
