// Reductions of dense tensors seen as [outer, reduced, inner]. Sums are accumulated in double.
//
// A long reduction is cut into chunks whose borders depend on the shape alone; each chunk leaves a
// partial result, and these are combined in order: the result does not depend on the threads.
// Buffers: out is overwritten (=).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/reduce.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "core/cpu/chunk_list.h"
#include "core/cpu/kernels.h"
#include "core/cpu/simd/vectors-inl.h"
#include "core/ops/copy.h"
#include "core/ops/reduce.h"
#include "core/parallel.h"
#include "core/round.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

// ---- sums along the last dimension

struct Identity {
  template <class V>
  HWY_INLINE V operator()(V x) const {
    return x;
  }
};

struct Squared {
  template <class V>
  HWY_INLINE V operator()(V x) const {
    return x * x;
  }
};

/// sum_i f(x[i]) in double, four vectors of partial sums at a time.
template <class T, class F>
double sum_run(F f, const T* x, std::int64_t n) {
  const hn::ScalableTag<double> d;
  const WholeAccess<hn::ScalableTag<double>> memory{d};
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::Add(s0, f(memory.load(x + i)));
    s1 = hn::Add(s1, f(memory.load(x + i + lanes)));
    s2 = hn::Add(s2, f(memory.load(x + i + 2 * lanes)));
    s3 = hn::Add(s3, f(memory.load(x + i + 3 * lanes)));
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, f(memory.load(x + i)));
  double rest = 0;
  for (; i < n; ++i) rest += f(static_cast<double>(x[i]));
  const auto all = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  return hn::GetLane(hn::SumOfLanes(d, all)) + rest;
}

// ---- sums along another dimension

/// sums[c] += the sum of `count` rows of x, `stride` apart, while the rows `ahead` elements further
/// on are fetched: the hardware does not foresee several streams of short rows.
template <std::int64_t count, class T>
void add_group(const T* x, std::int64_t columns, std::int64_t stride, std::int64_t ahead,
               double* sums) {
  const hn::ScalableTag<double> d;
  const WholeAccess<hn::ScalableTag<double>> memory{d};
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= columns; c += lanes) {
    auto sum = hn::LoadU(d, sums + c);
    for (std::int64_t k = 0; k < count; ++k) {
      const T* here = x + k * stride + c;
      hwy::Prefetch(here + ahead);
      sum = hn::Add(sum, memory.load(here));
    }
    hn::StoreU(sum, d, sums + c);
  }
  for (; c < columns; ++c) {
    for (std::int64_t k = 0; k < count; ++k) sums[c] += static_cast<double>(x[k * stride + c]);
  }
}

/// sums[c] = sum of `rows` rows of x, `stride` apart, for the first `columns` columns. Four rows at
/// a time: `sums` stays in the first-level cache, x is read once.
template <class T>
void add_rows(const T* x, std::int64_t rows, std::int64_t columns, std::int64_t stride,
              double* sums) {
  constexpr std::int64_t group = 4;
  std::fill_n(sums, columns, 0.0);
  std::int64_t r = 0;
  for (; r + group <= rows; r += group) {
    const std::int64_t ahead = r + 2 * group <= rows ? group * stride : 0;
    add_group<group>(x + r * stride, columns, stride, ahead, sums);
  }
  for (; r < rows; ++r) add_group<1>(x + r * stride, columns, stride, 0, sums);
}

// ---- maxima; a NaN is larger than any number

template <class V>
HWY_INLINE V larger(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
}

template <class T>
T larger_lane(T a, T b) {
  return a > b || a != a ? a : b;
}

template <class T>
T max_run(const T* x, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto m0 = lowest, m1 = lowest, m2 = lowest, m3 = lowest;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    m0 = larger(m0, hn::LoadU(d, x + i));
    m1 = larger(m1, hn::LoadU(d, x + i + lanes));
    m2 = larger(m2, hn::LoadU(d, x + i + 2 * lanes));
    m3 = larger(m3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) m0 = larger(m0, hn::LoadU(d, x + i));
  HWY_ALIGN T lane[hn::MaxLanes(decltype(d)())];
  hn::Store(larger(larger(m0, m1), larger(m2, m3)), d, lane);
  T result = lane[0];
  for (std::int64_t k = 1; k < lanes; ++k) result = larger_lane(result, lane[k]);
  for (; i < n; ++i) result = larger_lane(result, x[i]);
  return result;
}

/// Returns the first index of `value` (or of a NaN, if it is one), which x[0..n) must contain.
template <class T>
std::int64_t index_of(T value, const T* x, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto wanted = hn::Set(d, value);
  const bool nan = value != value;
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto here = hn::LoadU(d, x + i);
    const auto found = hn::FindFirstTrue(d, nan ? hn::IsNaN(here) : hn::Eq(here, wanted));
    if (found >= 0) return i + found;
  }
  while (nan ? x[i] == x[i] : x[i] != value) ++i;
  return i;
}

// ---- cutting a reduction

constexpr std::int64_t chunk_elements = 1 << 15;
constexpr std::int64_t column_block = 1024;  // its sums take 8 KiB

/// Rows of n elements that make up about a chunk.
std::int64_t rows_per_chunk(std::int64_t n) {
  return std::max<std::int64_t>(1, chunk_elements / std::max<std::int64_t>(1, n));
}

/// Calls fn(slice, first column, end column) for blocks of columns of [outer, n, inner], shared
/// among threads, `grain` blocks at a time.
template <class Fn>
void for_column_blocks(std::int64_t outer, std::int64_t inner, std::int64_t grain, const Fn& fn) {
  const std::int64_t blocks = ceil_div(inner, column_block);
  parallel_for_each(outer * blocks, grain, [&](std::int64_t task) {
    const std::int64_t column = task % blocks * column_block;
    fn(task / blocks, column, std::min(inner, column + column_block));
  });
}

template <class T>
void store_sums(const double* sums, std::int64_t n, T* out) {
  std::transform(sums, sums + n, out, [](double sum) { return static_cast<T>(sum); });
}

/// out[group, c] = sum_k partial[group, k, c], k < parts, in a fixed order.
template <class T>
void combine(const double* partial, std::int64_t groups, std::int64_t parts, std::int64_t inner,
             T* out) {
  const std::int64_t grain = rows_per_chunk(parts * std::min(inner, column_block));
  for_column_blocks(
      groups, inner, grain, [&](std::int64_t g, std::int64_t begin, std::int64_t end) {
        double sums[column_block];
        add_rows(partial + g * parts * inner + begin, parts, end - begin, inner, sums);
        store_sums(sums, end - begin, out + g * inner + begin);
      });
}

std::unique_ptr<double[]> empty_partials(std::int64_t n) {
  return std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(n));
}

/// Sums along the last dimension of x[outer, reduced].
template <class T>
void sum_last(const T* x, std::int64_t outer, std::int64_t reduced, T* out) {
  const std::int64_t parts = ceil_div(reduced, chunk_elements), tasks = outer * parts;
  const auto partial = empty_partials(tasks);
  parallel_for_each(tasks, rows_per_chunk(reduced), [&](std::int64_t task) {
    const std::int64_t first = task % parts * chunk_elements;
    partial[static_cast<std::size_t>(task)] = sum_run(
        Identity{}, x + task / parts * reduced + first, std::min(chunk_elements, reduced - first));
  });
  if (parts > 1) return combine(partial.get(), outer, parts, 1, out);
  store_sums(partial.get(), outer, out);
}

/// Sums along the middle dimension of x[outer, reduced, inner]: by chunks of rows and, in each, by
/// blocks of columns.
template <class T>
void sum_middle(const T* x, std::int64_t outer, std::int64_t reduced, std::int64_t inner, T* out) {
  const std::int64_t blocks = ceil_div(inner, column_block);
  const std::int64_t rows = rows_per_chunk(std::min(inner, column_block));
  const std::int64_t parts = ceil_div(reduced, rows);
  const bool whole = parts == 1;
  const auto partial = empty_partials(whole ? 0 : outer * parts * inner);
  const std::int64_t grain = ceil_div(rows, reduced);
  parallel_for(outer * parts * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    double sums[column_block];
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t part = task / blocks, row = part % parts * rows, group = part / parts;
      const std::int64_t column = task % blocks * column_block;
      const std::int64_t columns = std::min(column_block, inner - column);
      double* const to = whole ? sums : &partial[static_cast<std::size_t>(part * inner + column)];
      add_rows(x + (group * reduced + row) * inner + column, std::min(rows, reduced - row), columns,
               inner, to);
      if (whole) store_sums(sums, columns, out + group * inner + column);
    }
  });
  if (!whole) combine(partial.get(), outer, parts, inner, out);
}

// ---- kernels

double squares_of(const Tensor& x, std::int64_t begin, std::int64_t n) {
  double sum = 0;
  dispatch_real("sum_of_squares", x.dtype(),
                [&]<class T>(TypeTag<T>) { sum = sum_run(Squared{}, x.data<T>() + begin, n); });
  return sum;
}

class CpuReduce final : public ReduceKernels {
 public:
  void sum(const Tensor& x, std::int64_t outer, std::int64_t reduced, std::int64_t inner,
           const Tensor& out) override {
    if (outer * reduced * inner == 0) return cpu_copy_kernels().fill(out, 0);
    dispatch_real("sum", x.dtype(), [&]<class T>(TypeTag<T>) {
      if (inner == 1) return sum_last(x.data<T>(), outer, reduced, out.data<T>());
      sum_middle(x.data<T>(), outer, reduced, inner, out.data<T>());
    });
  }

  void sum_of_squares(std::span<const Tensor> xs, const Tensor& sums) override {
    ChunkList chunks(chunk_elements);
    for (const Tensor& x : xs) chunks.add(x.defined() ? x.numel() : 0);
    const auto partial = empty_partials(chunks.size());
    parallel_for_each(chunks.size(), 1, [&](std::int64_t i) {
      const Chunk chunk = chunks[i];
      partial[static_cast<std::size_t>(i)] =
          squares_of(xs[chunk.item], chunk.begin, chunk.end - chunk.begin);
    });
    double* const sum = sums.data<double>();
    std::fill_n(sum, xs.size(), 0.0);
    for (std::int64_t i = 0; i < chunks.size(); ++i)
      sum[chunks[i].item] += partial[static_cast<std::size_t>(i)];
  }

  void max(const Tensor& x, std::int64_t outer, std::int64_t reduced, std::int64_t inner,
           const Tensor& out) override {
    if (outer * reduced * inner == 0)
      return cpu_copy_kernels().fill(out, -std::numeric_limits<double>::infinity());
    dispatch_real("max", x.dtype(), [&]<class T>(TypeTag<T>) {
      const T* const from = x.data<T>();
      T* const to = out.data<T>();
      if (inner == 1) {
        parallel_for_each(outer, rows_per_chunk(reduced),
                          [&](std::int64_t r) { to[r] = max_run(from + r * reduced, reduced); });
        return;
      }
      for_column_blocks(outer, inner, 1, [&](std::int64_t o, std::int64_t begin, std::int64_t end) {
        const T* const slice = from + o * reduced * inner;
        T* const largest = to + o * inner;
        std::copy(slice + begin, slice + end, largest + begin);
        for (std::int64_t r = 1; r < reduced; ++r) {
          const T* row = slice + r * inner;
          for (std::int64_t c = begin; c < end; ++c) largest[c] = larger_lane(largest[c], row[c]);
        }
      });
    });
  }

  void argmax(const Tensor& x, const Tensor& out) override {
    const std::int64_t n = x.shape().back();
    dispatch_real("argmax", x.dtype(), [&]<class T>(TypeTag<T>) {
      parallel_for_each(out.numel(), rows_per_chunk(n), [&](std::int64_t r) {
        const T* row = x.data<T>() + r * n;
        out.data<std::int64_t>()[r] = index_of(max_run(row, n), row, n);
      });
    });
  }

  /// Each column carries its sum in double.
  void cumsum(const Tensor& x, std::int64_t outer, std::int64_t n, std::int64_t inner, bool reverse,
              const Tensor& out) override {
    const std::int64_t grain = ceil_div(rows_per_chunk(std::min(inner, column_block)), n + 1);
    dispatch_real("cumsum", x.dtype(), [&]<class T>(TypeTag<T>) {
      for_column_blocks(
          outer, inner, grain, [&](std::int64_t o, std::int64_t begin, std::int64_t end) {
            double sums[column_block];
            std::fill_n(sums, end - begin, 0.0);
            for (std::int64_t i = 0; i < n; ++i) {
              const std::int64_t at = (o * n + (reverse ? n - 1 - i : i)) * inner + begin;
              const T* from = x.data<T>() + at;
              T* to = out.data<T>() + at;
              for (std::int64_t c = 0; c < end - begin; ++c) {
                sums[c] += static_cast<double>(from[c]);
                to[c] = static_cast<T>(sums[c]);
              }
            }
          });
    });
  }
};

ReduceKernels& reduce_kernels() { return only<CpuReduce>(); }

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(reduce_kernels);
ReduceKernels& cpu_reduce_kernels() { return HWY_DYNAMIC_DISPATCH(reduce_kernels)(); }

}  // namespace mobius
#endif  // HWY_ONCE
