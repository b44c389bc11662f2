// Rows of a table by index: gather and its adjoint, scatter-add. Buffers: gather overwrites (=),
// scatter-add accumulates (+=).
//
// Scatter-add works through the buckets of a RowIndex. A short one is added up position by position
// by the threads of its columns. A long one, say of a frequent token, would keep them busy while
// the others have long finished: windows of the sorted positions sum their parts of long buckets
// first, and the parts are added up in order.
#include "core/cuda/kernels.h"
#include "core/cuda/rows.cuh"
#include "core/ops/rows.h"

namespace mobius {
namespace cuda {
namespace {

// ---- gather

/// An index in i32 or i64.
struct IndexArray {
  const void* data;
  bool is_wide;

  explicit IndexArray(const Tensor& index)
      : data(index.raw()), is_wide(index.dtype() == DType::i64) {}
  __device__ std::int64_t operator[](std::int64_t r) const {
    return is_wide ? static_cast<const std::int64_t*>(data)[r]
                   : static_cast<const std::int32_t*>(data)[r];
  }
};

/// out[r] = table[index[r]], rows of `width` words.
template <class Word>
__global__ void __launch_bounds__(most_in_team)
    gather_kernel(const Word* table, IndexArray index, std::int64_t n_rows, std::int64_t width,
                  Word* out) {
  const std::int64_t r = row_of_team();
  if (r >= n_rows) return;
  table += index[r] * width;
  for (std::int64_t j = threadIdx.x; j < width; j += blockDim.x) out[r * width + j] = table[j];
}

/// Calls fn with the widest word that divides all of the addresses and byte counts given.
template <class Fn>
void dispatch_words(std::uintptr_t bytes, Fn&& fn) {
  if (bytes % sizeof(uint4) == 0) return fn(uint4{});
  if (bytes % sizeof(std::uint32_t) == 0) return fn(std::uint32_t{});
  if (bytes % sizeof(std::uint16_t) == 0) return fn(std::uint16_t{});
  fn(std::uint8_t{});
}

// ---- scatter-add

constexpr std::int64_t longest_short = 256;  // bucket that is added up position by position
constexpr std::int64_t window = 128;         // positions; shorter than half a long bucket

/// The buckets of a RowIndex, and the rows [n, d] to be added to table[., d].
template <class T>
struct Buckets {
  const std::int64_t *table_rows, *offsets, *positions;
  std::int64_t n_buckets, n, d;
  const T* rows;
  T* table;
  /// [n_windows, 2, d]: sums of parts of long buckets. A window meets two of them at most: one that
  /// holds its first position, and one that begins in it.
  T* parts;
};

template <class T>
__device__ bool is_long(const Buckets<T>& p, std::int64_t bucket) {
  return p.offsets[bucket + 1] - p.offsets[bucket] > longest_short;
}

/// sum + rows[positions[begin, end)], in order, of a pack of columns.
template <class T, int kWidth>
__device__ Pack<T, kWidth> add_positions(const Buckets<T>& p, std::int64_t begin, std::int64_t end,
                                         PackPlace<kWidth> columns, Pack<T, kWidth> sum) {
#pragma unroll 4
  for (std::int64_t at = begin; at < end; ++at) {
    const Pack<T, kWidth> row = load(p.rows + p.positions[at] * p.d, columns);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum[i] += row[i];
  }
  return sum;
}

/// The bucket that holds a position.
template <class T>
__device__ std::int64_t bucket_of(const Buckets<T>& p, std::int64_t position) {
  std::int64_t begin = 0, end = p.n_buckets;  // offsets[begin] <= position < offsets[end]
  while (end - begin > 1) {
    const std::int64_t middle = (begin + end) / 2;
    (p.offsets[middle] <= position ? begin : end) = middle;
  }
  return begin;
}

/// Which of the two parts of a window belongs to a bucket.
template <class T>
__device__ T* part_of(const Buckets<T>& p, std::int64_t window_index, std::int64_t bucket) {
  const bool begins_inside = p.offsets[bucket] > window_index * window;
  return p.parts + (2 * window_index + (begins_inside ? 1 : 0)) * p.d;
}

/// The packs of columns of a thread; blockIdx.y has some of them.
template <int kWidth>
__device__ PackPlace<kWidth> columns_of_thread(std::int64_t d) {
  return {(std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * kWidth, d};
}

template <class T, int kWidth>
__global__ void __launch_bounds__(most_in_team) sum_parts_kernel(Buckets<T> p) {
  const std::int64_t index = row_of_team(), begin = index * window;
  const auto columns = columns_of_thread<kWidth>(p.d);
  if (begin >= p.n || columns.is_empty()) return;
  const std::int64_t end = begin + window < p.n ? begin + window : p.n;
  std::int64_t bucket = bucket_of(p, begin);
  for (; bucket < p.n_buckets && p.offsets[bucket] < end; ++bucket) {
    if (!is_long(p, bucket)) continue;
    const std::int64_t from = p.offsets[bucket] > begin ? p.offsets[bucket] : begin;
    const std::int64_t to = p.offsets[bucket + 1] < end ? p.offsets[bucket + 1] : end;
    const auto sum = add_positions(p, from, to, columns, Pack<T, kWidth>());
    store(sum, part_of(p, index, bucket), columns);
  }
}

/// The sum of the parts of a long bucket.
template <class T, int kWidth>
__device__ Pack<T, kWidth> add_parts(const Buckets<T>& p, std::int64_t bucket,
                                     PackPlace<kWidth> columns, Pack<T, kWidth> sum) {
  const std::int64_t last = (p.offsets[bucket + 1] - 1) / window;
  for (std::int64_t index = p.offsets[bucket] / window; index <= last; ++index) {
    const Pack<T, kWidth> part = load(part_of(p, index, bucket), columns);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum[i] += part[i];
  }
  return sum;
}

template <class T, int kWidth>
__global__ void __launch_bounds__(most_in_team) scatter_add_kernel(Buckets<T> p) {
  const std::int64_t bucket = row_of_team();
  const auto columns = columns_of_thread<kWidth>(p.d);
  if (bucket >= p.n_buckets || columns.is_empty()) return;
  T* const to = p.table + p.table_rows[bucket] * p.d;
  const Pack<T, kWidth> before = load(to, columns);
  store(is_long(p, bucket)
            ? add_parts(p, bucket, columns, before)
            : add_positions(p, p.offsets[bucket], p.offsets[bucket + 1], columns, before),
        to, columns);
}

/// A team for each of n_rows, and blocks along y where a team has too few threads for the row.
LaunchShape for_columns(std::int64_t n_rows, std::int64_t packs) {
  LaunchShape shape = for_teams(n_rows, packs);
  shape.grid.y = static_cast<unsigned>(ceil_div<std::int64_t>(packs, shape.block.x));
  return shape;
}

class CudaRows final : public RowsKernels {
 public:
  void gather_rows(const Tensor& table, const Tensor& index, const Tensor& out) override {
    if (out.numel() == 0) return;
    const auto row_bytes = static_cast<std::size_t>(table.size(1)) * size_of(table.dtype());
    const auto address = [](const Tensor& x) { return reinterpret_cast<std::uintptr_t>(x.raw()); };
    dispatch_words(row_bytes | address(table) | address(out), [&]<class Word>(Word) {
      const auto width = static_cast<std::int64_t>(row_bytes / sizeof(Word));
      launch(gather_kernel<Word>, for_teams(index.numel(), width),
             static_cast<const Word*>(table.raw()), IndexArray(index), index.numel(), width,
             static_cast<Word*>(out.raw()));
    });
  }

  void scatter_add_rows(const Tensor& rows, const RowIndex& index, const Tensor& table) override {
    if (rows.numel() == 0) return;
    dispatch_real("scatter_add_rows", table.dtype(), [&]<class T>(TypeTag<T>) {
      constexpr int width = pack_width<T>;
      Buckets<T> p{index.rows().data<std::int64_t>(),
                   index.offsets().data<std::int64_t>(),
                   index.positions().data<std::int64_t>(),
                   index.rows().numel(),
                   index.numel(),
                   table.size(1),
                   rows.data<T>(),
                   table.data<T>(),
                   nullptr};
      const std::int64_t packs = ceil_div(p.d, width);
      Tensor parts;
      if (p.n > longest_short) {
        const std::int64_t n_windows = ceil_div(p.n, window);
        parts = Tensor::empty({n_windows, 2, p.d}, table.dtype(), table.device());
        p.parts = parts.data<T>();
        launch(sum_parts_kernel<T, width>, for_columns(n_windows, packs), p);
      }
      launch(scatter_add_kernel<T, width>, for_columns(p.n_buckets, packs), p);
    });
  }
};

}  // namespace
}  // namespace cuda

RowsKernels& cuda_rows_kernels() { return only<cuda::CudaRows>(); }

}  // namespace mobius
