// Reductions of dense tensors seen as [outer, reduced, inner]. Sums are accumulated in double.
//
// A long reduction is cut into parts whose borders depend on the shape alone; each part leaves a
// partial result, and these are reduced in order, without atomics: the result is the same in every
// run. Buffers: out is overwritten (=).
#include <bit>
#include <cmath>
#include <limits>

#include "core/cuda/chunks.cuh"
#include "core/cuda/kernels.h"
#include "core/cuda/reduce.cuh"
#include "core/cuda/vector.cuh"
#include "core/ops/copy.h"
#include "core/ops/reduce.h"

namespace mobius::cuda {
namespace {

constexpr int block_threads = default_block;

// ---- what is reduced: take() adds an element, merge() joins two results

template <class T>
struct Sum {
  using Element = T;
  using Result = double;
  static __device__ Result identity() { return 0; }
  static __device__ Result take(Result sum, T x, std::int64_t) {
    return sum + static_cast<double>(x);
  }
  __device__ Result operator()(Result a, Result b) const { return a + b; }
};

template <class T>
struct Max {
  using Element = T;
  using Result = T;
  static __device__ Result identity() { return -std::numeric_limits<T>::infinity(); }
  static __device__ Result take(Result largest, T x, std::int64_t) { return Larger()(largest, x); }
  __device__ Result operator()(Result a, Result b) const { return Larger()(a, b); }
};

/// An element and where it is.
template <class T>
struct Candidate {
  T value;
  std::int64_t index;

  __device__ explicit operator std::int64_t() const { return index; }
};
template <class T>
__device__ Candidate<T> shuffle_xor(Candidate<T> x, int mask) {
  return {cuda::shuffle_xor(x.value, mask), cuda::shuffle_xor(x.index, mask)};
}

/// The first of the largest, or of the NaNs.
template <class T>
struct Argmax {
  using Element = T;
  using Result = Candidate<T>;
  static __device__ Result identity() {
    return {-std::numeric_limits<T>::infinity(), std::numeric_limits<std::int64_t>::max()};
  }
  static __device__ Result take(Result best, T x, std::int64_t index) {
    return Argmax()(best, {x, index});
  }
  __device__ Result operator()(Result a, Result b) const {
    const bool is_nan = a.value != a.value, other_is_nan = b.value != b.value;
    const bool equal = a.value == b.value || (is_nan && other_is_nan);
    const bool larger = a.value > b.value || (is_nan && !other_is_nan);
    return larger || (equal && a.index < b.index) ? a : b;
  }
};

// ---- along the last dimension

/// kLanes threads for each row of n elements.
template <int kLanes, class Op, class Out>
__global__ void short_rows_kernel(const typename Op::Element* x, std::int64_t rows, std::int64_t n,
                                  Out* out) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t row = thread / kLanes;
  auto result = Op::identity();
  if (row < rows)
    for (std::int64_t i = thread % kLanes; i < n; i += kLanes)
      result = Op::take(result, x[row * n + i], i);
  result = warp_reduce<kLanes>(result, Op());
  if (row < rows && thread % kLanes == 0) out[row] = static_cast<Out>(result);
}

/// Elements [begin, end) of a row, by all threads of the block.
template <class Op>
__device__ typename Op::Result reduce_run(const typename Op::Element* row, std::int64_t begin,
                                          std::int64_t end) {
  constexpr int width = pack_width<typename Op::Element>;
  auto result = Op::identity();
  for (std::int64_t i = begin + threadIdx.x * width; i < end; i += block_threads * width) {
    const PackPlace<width> place(i, end);
    const auto pack = load(row, place);
#pragma unroll
    for (int k = 0; k < width; ++k)
      if (place.has(k)) result = Op::take(result, pack[k], i + k);
  }
  return block_reduce(result, Op::identity(), Op());
}

constexpr std::int64_t part_elements = 1 << 15;

/// A block for each part of a row.
template <class Op, class Out>
__global__ void long_rows_kernel(const typename Op::Element* x, std::int64_t n, std::int64_t parts,
                                 Out* out) {
  const std::int64_t row = blockIdx.x / parts, begin = blockIdx.x % parts * part_elements;
  const std::int64_t end = parts == 1 ? n : min(n, begin + part_elements);
  const auto result = reduce_run<Op>(x + row * n, begin, end);
  if (threadIdx.x == 0) out[blockIdx.x] = static_cast<Out>(result);
}

template <class Op, class Out>
void reduce_whole_rows(const typename Op::Element* x, std::int64_t rows, std::int64_t n, Out* out) {
  constexpr int few = 8;
  if (n <= 4 * few)
    return launch(short_rows_kernel<few, Op, Out>, for_elements(rows * few), x, rows, n, out);
  if (n <= 1024)
    return launch(short_rows_kernel<warp_size, Op, Out>, for_warps(rows), x, rows, n, out);
  launch(long_rows_kernel<Op, Out>, {.grid = dim3(static_cast<unsigned>(rows))}, x, n, 1, out);
}

constexpr std::int64_t enough_blocks = 1024;

/// Merge reduces partial results.
template <class Op, class Merge, class Out>
void reduce_rows(const Tensor& x, std::int64_t rows, std::int64_t n, Out* out) {
  using Result = typename Op::Result;
  const auto* const from = x.data<typename Op::Element>();
  const std::int64_t parts = rows < enough_blocks ? ceil_div(n, part_elements) : 1;
  if (parts == 1) return reduce_whole_rows<Op>(from, rows, n, out);
  const Tensor partial = Tensor::empty({rows, parts}, dtype_of<Result>(), x.device());
  launch(long_rows_kernel<Op, Result>, {.grid = dim3(static_cast<unsigned>(rows * parts))}, from, n,
         parts, partial.data<Result>());
  reduce_rows<Merge, Merge>(partial, rows, parts, out);
}

// ---- along another dimension

/// A column is one of outer * inner; threadIdx.x counts columns, threadIdx.y the rows of a part.
template <class Op, class Out>
__global__ void columns_kernel(const typename Op::Element* x, std::int64_t columns,
                               std::int64_t reduced, std::int64_t inner, std::int64_t parts,
                               std::int64_t part_rows, Out* out) {
  __shared__ typename Op::Result of_threads[block_threads];
  const std::int64_t column = blockIdx.x / parts * blockDim.x + threadIdx.x;
  const std::int64_t part = blockIdx.x % parts;
  const std::int64_t group = column / inner, at = column % inner;
  auto result = Op::identity();
  if (column < columns) {
    const std::int64_t end = min(reduced, (part + 1) * part_rows);
    for (std::int64_t r = part * part_rows + threadIdx.y; r < end; r += blockDim.y)
      result = Op::take(result, x[(group * reduced + r) * inner + at], r);
  }
  const unsigned slot = threadIdx.y * blockDim.x + threadIdx.x;
  of_threads[slot] = result;
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half)
      of_threads[slot] = Op()(of_threads[slot], of_threads[slot + half * blockDim.x]);
  }
  if (threadIdx.y == 0 && column < columns)
    out[(group * parts + part) * inner + at] = static_cast<Out>(of_threads[slot]);
}

/// How the columns of [outer, reduced, inner] are shared among blocks.
struct ColumnPlan {
  dim3 block;
  std::int64_t tiles, parts, part_rows;

  ColumnPlan(std::int64_t columns, std::int64_t reduced) {
    constexpr std::int64_t elements = 8192;  // of a block, where the reduction is long
    const auto threads = [](std::int64_t n, std::int64_t most) {
      return static_cast<unsigned>(std::bit_ceil(static_cast<std::uint64_t>(std::min(n, most))));
    };
    const unsigned narrow = threads(columns, warp_size);
    block.y = threads(reduced, block_threads / narrow);
    block.x = threads(columns, block_threads / block.y);
    tiles = ceil_div(columns, std::int64_t{block.x});
    part_rows = std::max<std::int64_t>(block.y, elements / block.x);
    parts = tiles < enough_blocks ? ceil_div(reduced, part_rows) : 1;
    if (parts == 1) part_rows = reduced;
  }
};

template <class Op, class Merge, class Out>
void reduce_columns(const Tensor& x, std::int64_t outer, std::int64_t reduced, std::int64_t inner,
                    Out* out) {
  using Result = typename Op::Result;
  const ColumnPlan plan(outer * inner, reduced);
  const auto run = [&]<class To>(To* to) {
    launch(columns_kernel<Op, To>,
           {.grid = dim3(static_cast<unsigned>(plan.tiles * plan.parts)), .block = plan.block},
           x.data<typename Op::Element>(), outer * inner, reduced, inner, plan.parts,
           plan.part_rows, to);
  };
  if (plan.parts == 1) return run(out);
  const Tensor partial = Tensor::empty({outer, plan.parts, inner}, dtype_of<Result>(), x.device());
  run(partial.data<Result>());
  reduce_columns<Merge, Merge>(partial, outer, plan.parts, inner, out);
}

template <class Op, class Merge>
void reduce(const Tensor& x, std::int64_t outer, std::int64_t reduced, std::int64_t inner,
            const Tensor& out) {
  auto* const to = out.data<typename Op::Element>();
  if (inner == 1) return reduce_rows<Op, Merge>(x, outer, reduced, to);
  reduce_columns<Op, Merge>(x, outer, reduced, inner, to);
}

// ---- sums of squares of many tensors

struct SquaredItem {
  const void* data;
  std::int64_t n;
  bool is_double;
};

template <class T>
struct SumOfSquares : Sum<T> {
  static __device__ double take(double sum, T x, std::int64_t) {
    return std::fma(static_cast<double>(x), static_cast<double>(x), sum);
  }
};

/// partial[chunk] = the sum over the chunk.
__global__ void squares_kernel(const __grid_constant__ ChunkTable<SquaredItem> table,
                               double* partial) {
  const ItemChunk chunk = table[static_cast<std::int32_t>(blockIdx.x)];
  const SquaredItem& item = table.items[chunk.item];
  const double sum = item.is_double
                         ? reduce_run<SumOfSquares<double>>(static_cast<const double*>(item.data),
                                                            chunk.begin, chunk.end)
                         : reduce_run<SumOfSquares<float>>(static_cast<const float*>(item.data),
                                                           chunk.begin, chunk.end);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// sums[item] = the sum of its chunks.
__global__ void chunk_sums_kernel(const __grid_constant__ ChunkTable<SquaredItem> table,
                                  const double* partial, double* sums) {
  const unsigned item = blockIdx.x;
  const double sum = reduce_run<Sum<double>>(partial, table.first[item], table.first[item + 1]);
  if (threadIdx.x == 0) sums[item] = sum;
}

void sums_of_squares(const std::vector<SquaredItem>& items, const Tensor& sums) {
  double* to = sums.data<double>();
  for_chunk_tables(items, part_elements, [&](const ChunkTable<SquaredItem>& table) {
    const Tensor partial = Tensor::empty({table.n_chunks()}, DType::f64, sums.device());
    launch(squares_kernel, {.grid = dim3(static_cast<unsigned>(table.n_chunks()))}, table,
           partial.data<double>());
    launch(chunk_sums_kernel, {.grid = dim3(static_cast<unsigned>(table.n_items))}, table,
           partial.data<double>(), to);
    to += table.n_items;
  });
}

// ---- running sums along the middle dimension of [outer, n, inner], by parts of it

/// What a kernel of running sums works on.
struct Scan {
  std::int64_t outer, n, inner;
  bool is_reverse;
  std::int64_t parts, part_length;

  /// Where step i of a column is.
  __device__ std::int64_t at(std::int64_t group, std::int64_t i, std::int64_t column) const {
    return (group * n + (is_reverse ? n - 1 - i : i)) * inner + column;
  }
  __device__ std::int64_t end(std::int64_t part) const { return min(n, (part + 1) * part_length); }
};

/// A thread for each part of a column. If out is null, carries[part] becomes the sum of the part;
/// else running sums start from it.
template <class T>
__global__ void scan_columns_kernel(Scan scan, const T* x, double* carries, T* out) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread >= scan.outer * scan.parts * scan.inner) return;
  const std::int64_t column = thread % scan.inner, part = thread / scan.inner % scan.parts;
  const std::int64_t group = thread / scan.inner / scan.parts, end = scan.end(part);
  double sum = out && carries ? carries[thread] : 0;
  for (std::int64_t i = part * scan.part_length; i < end; ++i) {
    const std::int64_t at = scan.at(group, i, column);
    sum += static_cast<double>(x[at]);
    if (out) out[at] = static_cast<T>(sum);
  }
  if (!out) carries[thread] = sum;
}

/// The sum of x over this and all lower lanes.
__device__ double warp_scan(double x) {
  const int lane = static_cast<int>(threadIdx.x % warp_size);
  for (int offset = 1; offset < warp_size; offset *= 2) {
    const double lower = __shfl_up_sync(all_lanes, x, offset);
    if (lane >= offset) x += lower;
  }
  return x;
}

/// As scan_columns_kernel(), by a warp for each part of a row (inner == 1).
template <class T>
__global__ void scan_rows_kernel(Scan scan, const T* x, double* carries, T* out) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t task = thread / warp_size;
  if (task >= scan.outer * scan.parts) return;
  const std::int64_t part = task % scan.parts, end = scan.end(part);
  double carry = out && carries ? carries[task] : 0;
  for (std::int64_t i = part * scan.part_length; i < end; i += warp_size) {
    const std::int64_t mine = i + thread % warp_size;
    const std::int64_t at = scan.at(task / scan.parts, mine, 0);
    const double sum = carry + warp_scan(mine < end ? static_cast<double>(x[at]) : 0);
    if (out && mine < end) out[at] = static_cast<T>(sum);
    carry = __shfl_sync(all_lanes, sum, warp_size - 1);
  }
  if (!out && thread % warp_size == 0) carries[task] = carry;
}

/// Turns the sums of the parts of each column into what came before each.
__global__ void carries_kernel(Scan scan, double* carries) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread >= scan.outer * scan.inner) return;
  carries += thread / scan.inner * scan.parts * scan.inner + thread % scan.inner;
  double before = 0;
  for (std::int64_t part = 0; part < scan.parts; ++part) {
    const double sum = carries[part * scan.inner];
    carries[part * scan.inner] = before;
    before += sum;
  }
}

Scan plan_scan(std::int64_t outer, std::int64_t n, std::int64_t inner, bool is_reverse) {
  constexpr std::int64_t shortest = 256, enough_columns = 1 << 15;
  // About as many parts as elements of a part, since carries are summed one by one.
  const auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(n)));
  const bool is_whole = outer * inner >= enough_columns;
  const std::int64_t length =
      is_whole ? n : std::max(shortest, round_up(root, std::int64_t{warp_size}));
  return {outer, n, inner, is_reverse, ceil_div(n, length), length};
}

template <class T>
void run_scan(const Scan& scan, const T* x, double* carries, T* out) {
  if (scan.inner == 1)
    launch(scan_rows_kernel<T>, for_warps(scan.outer * scan.parts), scan, x, carries, out);
  else
    launch(scan_columns_kernel<T>, for_elements(scan.outer * scan.parts * scan.inner), scan, x,
           carries, out);
}

// ---- kernels

class CudaReduce final : public ReduceKernels {
 public:
  void sum(const Tensor& x, std::int64_t outer, std::int64_t reduced, std::int64_t inner,
           const Tensor& out) override {
    if (outer * reduced * inner == 0) return cuda_copy_kernels().fill(out, 0);
    dispatch_real("sum", x.dtype(), [&]<class T>(TypeTag<T>) {
      reduce<Sum<T>, Sum<double>>(x, outer, reduced, inner, out);
    });
  }

  void max(const Tensor& x, std::int64_t outer, std::int64_t reduced, std::int64_t inner,
           const Tensor& out) override {
    if (outer * reduced * inner == 0)
      return cuda_copy_kernels().fill(out, -std::numeric_limits<double>::infinity());
    dispatch_real("max", x.dtype(), [&]<class T>(TypeTag<T>) {
      reduce<Max<T>, Max<T>>(x, outer, reduced, inner, out);
    });
  }

  void argmax(const Tensor& x, const Tensor& out) override {
    dispatch_real("argmax", x.dtype(), [&]<class T>(TypeTag<T>) {
      reduce_whole_rows<Argmax<T>>(x.data<T>(), out.numel(), x.shape().back(),
                                   out.data<std::int64_t>());
    });
  }

  void sum_of_squares(std::span<const Tensor> xs, const Tensor& sums) override {
    std::vector<SquaredItem> items;
    for (const Tensor& x : xs) {
      if (x.defined())
        items.push_back({x.raw(), x.numel(), x.dtype() == DType::f64});
      else
        items.push_back({nullptr, 0, false});
    }
    sums_of_squares(items, sums);
  }

  void cumsum(const Tensor& x, std::int64_t outer, std::int64_t n, std::int64_t inner, bool reverse,
              const Tensor& out) override {
    if (x.numel() == 0) return;
    const Scan scan = plan_scan(outer, n, inner, reverse);
    dispatch_real("cumsum", x.dtype(), [&]<class T>(TypeTag<T>) {
      const T* const from = x.data<T>();
      if (scan.parts == 1) return run_scan<T>(scan, from, nullptr, out.data<T>());
      const Tensor carries = Tensor::empty({outer, scan.parts, inner}, DType::f64, x.device());
      run_scan<T>(scan, from, carries.data<double>(), nullptr);
      launch(carries_kernel, for_elements(outer * inner), scan, carries.data<double>());
      run_scan<T>(scan, from, carries.data<double>(), out.data<T>());
    });
  }
};

}  // namespace
}  // namespace mobius::cuda

namespace mobius {

ReduceKernels& cuda_reduce_kernels() { return only<cuda::CudaReduce>(); }

}  // namespace mobius
