// Copies between strided views with conversion, and fills. Elements of one type move as words of
// their size. If each side is dense along another dimension (a transpose), tiles pass through
// shared memory, so that both sides move whole sectors of memory.
//
// Buffers: source and out must not overlap, unless both are the same dense view.
#include "core/cuda/kernels.h"
#include "core/cuda/strided.cuh"
#include "core/ops/copy.h"

namespace mobius::cuda {
namespace {

// ---- conversions

template <class To, class From>
__host__ __device__ To convert(From value) {
  if constexpr (std::is_same_v<From, BFloat16>)
    return static_cast<To>(static_cast<float>(value));
  else if constexpr (std::is_same_v<To, BFloat16>)
    return BFloat16(static_cast<float>(value));
  else if constexpr (std::is_integral_v<To>)
    return static_cast<To>(static_cast<std::int64_t>(value));  // low bits, as on the CPU
  else
    return static_cast<To>(value);
}

template <class To>
struct Convert {
  template <class From>
  __device__ To operator()(From value) const {
    return convert<To>(value);
  }
};

struct Same {
  template <class Word>
  __device__ Word operator()(Word word) const {
    return word;
  }
};

template <class Word>
struct Constant {
  Word word;
  __device__ Word operator()() const { return word; }
};

// ---- transposes

constexpr int tile = 32, tile_rows = 8;  // a block has one thread for each column of tile_rows rows

/// Matrices of words, dense along their rows in the source and along their columns in out.
struct Matrices {
  std::int32_t rows, columns;
  std::int32_t from_row, to_column;  // strides of the other dimension
  Divisor tile_columns, tile_rows;   // tiles of a matrix
  RowLayout<2> outer;                // one element a matrix
};

template <class Word>
__global__ void transpose_kernel(Matrices m, const Word* from, Word* to) {
  __shared__ Word words[tile][tile + 1];  // the column more keeps threads on different banks
  std::uint32_t matrix = blockIdx.x;
  const auto j0 = static_cast<std::int32_t>(m.tile_columns.divide(matrix)) * tile;
  const auto i0 = static_cast<std::int32_t>(m.tile_rows.divide(matrix)) * tile;
  const auto at = m.outer.row_of(matrix);
  from += at.offsets[1];
  to += at.offsets[0];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  for (int i = y; i < tile && i0 + i < m.rows; i += tile_rows)
    if (j0 + x < m.columns) words[i][x] = from[(i0 + i) * m.from_row + j0 + x];
  __syncthreads();
  for (int j = y; j < tile && j0 + j < m.columns; j += tile_rows)
    if (i0 + x < m.rows) to[(j0 + j) * m.to_column + i0 + x] = words[x][j];
}

/// `columns` is the dimension along which the source is dense; out is along the last.
template <class Word>
void transpose(Dims<2> dims, std::size_t columns, const Word* from, Word* to) {
  const StridedDim<2> column = dims[columns], row = dims.back();
  dims.pop_back();
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(columns));
  const std::int64_t across = ceil_div(column.size, std::int64_t{tile});
  const std::int64_t down = ceil_div(row.size, std::int64_t{tile});
  dims.push_back({1, {}});  // each row of the layout is one matrix
  const Matrices matrices{static_cast<std::int32_t>(row.size),
                          static_cast<std::int32_t>(column.size),
                          static_cast<std::int32_t>(row.strides[1]),
                          static_cast<std::int32_t>(column.strides[0]),
                          Divisor(across),
                          Divisor(down),
                          RowLayout<2>(dims, 1, true)};
  const std::int64_t blocks = across * down * matrices.outer.n_packs;
  launch(transpose_kernel<Word>,
         {.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(tile, tile_rows)}, matrices,
         from, to);
}

/// The dimension along which the source is dense if out is along another and both are long enough
/// for tiles; else the number of dimensions.
std::size_t transposed_dim(const Dims<2>& dims) {
  constexpr std::int64_t shortest = 8;
  std::size_t found = dims.size();
  if (dims.size() < 2 || dims.back().strides[0] != 1 || dims.back().size < shortest) return found;
  for (std::size_t i = 0; i + 1 < dims.size(); ++i)
    if (dims[i].strides[1] == 1 && dims[i].size >= shortest) found = i;
  return found;
}

template <class Word>
void copy_words(const Tensor& source, const Tensor& out) {
  const auto dims = dims_of(out, source);
  if (transposed_dim(dims) == dims.size()) return map<Word, Word>(Same(), out, source);
  for_parts<2>(dims, {}, [&](const Dims<2>& part, const Offsets<2>& at) {
    const std::size_t columns = transposed_dim(part);
    const Word* const from = static_cast<const Word*>(source.raw()) + at[1];
    Word* const to = static_cast<Word*>(out.raw()) + at[0];
    if (columns != part.size()) return transpose(part, columns, from, to);
    launch_map<pack_width<Word>>(part, {}, Same(), std::make_index_sequence<1>(), to, from);
  });
}

// ---- 0, 1, 2, ...

template <class T>
__global__ void arange_kernel(std::int64_t n, T* out) {
  const auto place = pack_of_thread<pack_width<T>>(n);
  if (place.is_empty()) return;
  Pack<T, pack_width<T>> values;
#pragma unroll
  for (int i = 0; i < pack_width<T>; ++i) values[i] = convert<T>(place.first + i);
  store(values, out, place);
}

// ---- kernels

class CudaCopy final : public CopyKernels {
 public:
  void copy(const Tensor& source, const Tensor& out) override {
    if (out.numel() == 0) return;
    if (source.dtype() == out.dtype())
      return dispatch_word(out.dtype(), [&]<class Word>(Word) { copy_words<Word>(source, out); });
    if (const auto dims = dims_of(out, source); transposed_dim(dims) != dims.size()) {
      const Tensor transposed = Tensor::empty(out.shape(), source.dtype(), out.device());
      copy(source, transposed);
      return copy(transposed, out);
    }
    dispatch_any(out.dtype(), [&]<class To>(TypeTag<To>) {
      dispatch_any(source.dtype(), [&]<class From>(TypeTag<From>) {
        if constexpr (!std::is_same_v<From, To>) map<To, From>(Convert<To>(), out, source);
      });
    });
  }

  void copy_to_host(const Tensor& source, void* host) override {
    if (source.bytes() != 0) download(source.raw(), host, source.bytes());
  }

  void copy_from_host(const void* host, const Tensor& out) override {
    if (out.bytes() != 0) upload(host, out.raw(), out.bytes());
  }

  void fill(const Tensor& out, double value) override {
    dispatch_any(out.dtype(), [&]<class T>(TypeTag<T>) {
      dispatch_word(out.dtype(), [&]<class Word>(Word) {
        if constexpr (sizeof(T) == sizeof(Word))
          map<Word>(Constant<Word>{std::bit_cast<Word>(convert<T>(value))}, out);
      });
    });
  }

  void arange(const Tensor& out) override {
    dispatch_any(out.dtype(), [&]<class T>(TypeTag<T>) {
      launch(arange_kernel<T>, for_packs<pack_width<T>>(out.numel()), out.numel(), out.data<T>());
    });
  }
};

}  // namespace
}  // namespace mobius::cuda

namespace mobius {

CopyKernels& cuda_copy_kernels() { return only<cuda::CudaCopy>(); }

}  // namespace mobius
