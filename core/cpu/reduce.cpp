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
#include "core/ops/copy.h"
#include "core/ops/reduce.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// ---- sums along the last dimension

/// As many elements as a vector holds doubles, converted to double.
template <class D>
HWY_INLINE hn::Vec<D> load_double(D d, const float* x) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), x));
}
template <class D>
HWY_INLINE hn::Vec<D> load_double(D d, const double* x) {
  return hn::LoadU(d, x);
}

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
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::Add(s0, f(load_double(d, x + i)));
    s1 = hn::Add(s1, f(load_double(d, x + i + lanes)));
    s2 = hn::Add(s2, f(load_double(d, x + i + 2 * lanes)));
    s3 = hn::Add(s3, f(load_double(d, x + i + 3 * lanes)));
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, f(load_double(d, x + i)));
  double rest = 0;
  for (; i < n; ++i) rest += f(static_cast<double>(x[i]));
  const auto all = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  return hn::GetLane(hn::SumOfLanes(d, all)) + rest;
}

double sum_of(const Tensor& x, std::int64_t begin, std::int64_t end) {
  return dispatch_real("sum", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return sum_run(Identity{}, x.data<T>() + begin, end - begin);
  });
}

double sum_of_squares_of(const Tensor& x, std::int64_t begin, std::int64_t end) {
  return dispatch_real("sum_of_squares", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return sum_run(Squared{}, x.data<T>() + begin, end - begin);
  });
}

// ---- sums along another dimension

/// sums[c] += the sum of `count` rows of x, `stride` apart, while the rows `ahead` elements further
/// on are fetched: the hardware does not foresee several streams of short rows.
template <std::int64_t count, class T>
void add_group(const T* x, std::int64_t columns, std::int64_t stride, std::int64_t ahead,
               double* sums) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= columns; c += lanes) {
    auto sum = hn::LoadU(d, sums + c);
    for (std::int64_t k = 0; k < count; ++k) {
      const T* here = x + k * stride + c;
      hwy::Prefetch(here + ahead);
      sum = hn::Add(sum, load_double(d, here));
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

void sum_rows_of(const Tensor& x, std::int64_t offset, std::int64_t rows, std::int64_t columns,
                 std::int64_t stride, double* sums) {
  dispatch_real("sum", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    add_rows(x.data<T>() + offset, rows, columns, stride, sums);
  });
}

void sum_partials(const double* partial, std::int64_t rows, std::int64_t columns,
                  std::int64_t stride, double* sums) {
  add_rows(partial, rows, columns, stride, sums);
}

/// Elements [offset, offset + n) of out.
void store_chunk(const double* sums, std::int64_t n, const Tensor& out, std::int64_t offset) {
  dispatch_real("sum", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::transform(sums, sums + n, out.data<T>() + offset,
                   [](double sum) { return static_cast<T>(sum); });
  });
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

/// The first index of `value` (of a NaN when it is one) among x[0..n), where it must be.
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

void max_rows_chunk(const Tensor& x, std::int64_t n, const Tensor& out, std::int64_t begin,
                    std::int64_t end) {
  dispatch_real("max", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.data<T>();
    T* to = out.data<T>();
    for (std::int64_t r = begin; r < end; ++r) to[r] = max_run(from + r * n, n);
  });
}

/// out[c] of the slice `o` for columns [begin, end).
void max_columns_chunk(const Tensor& x, std::int64_t o, std::int64_t reduced, std::int64_t inner,
                       const Tensor& out, std::int64_t begin, std::int64_t end) {
  dispatch_real("max", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.data<T>() + o * reduced * inner;
    T* to = out.data<T>() + o * inner;
    std::copy(from + begin, from + end, to + begin);
    for (std::int64_t r = 1; r < reduced; ++r) {
      const T* row = from + r * inner;
      for (std::int64_t c = begin; c < end; ++c) to[c] = larger_lane(to[c], row[c]);
    }
  });
}

void argmax_chunk(const Tensor& x, std::int64_t n, const Tensor& out, std::int64_t begin,
                  std::int64_t end) {
  dispatch_real("argmax", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t r = begin; r < end; ++r) {
      const T* row = x.data<T>() + r * n;
      out.data<std::int64_t>()[r] = index_of(max_run(row, n), row, n);
    }
  });
}

// ---- running sums

/// Columns [begin, end) of the slice `o`; each column carries its sum in double.
void cumsum_chunk(const Tensor& x, std::int64_t o, std::int64_t n, std::int64_t inner, bool reverse,
                  const Tensor& out, std::int64_t begin, std::int64_t end, double* sums) {
  dispatch_real("cumsum", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t columns = end - begin;
    std::fill_n(sums, columns, 0.0);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = (o * n + (reverse ? n - 1 - i : i)) * inner + begin;
      const T* from = x.data<T>() + at;
      T* to = out.data<T>() + at;
      for (std::int64_t c = 0; c < columns; ++c) {
        sums[c] += static_cast<double>(from[c]);
        to[c] = static_cast<T>(sums[c]);
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(sum_of);
HWY_EXPORT(sum_of_squares_of);
HWY_EXPORT(sum_rows_of);
HWY_EXPORT(sum_partials);
HWY_EXPORT(store_chunk);
HWY_EXPORT(max_rows_chunk);
HWY_EXPORT(max_columns_chunk);
HWY_EXPORT(argmax_chunk);
HWY_EXPORT(cumsum_chunk);

namespace {

constexpr std::int64_t chunk_elements = 1 << 15;
constexpr std::int64_t column_block = 1024;  // its sums take 8 KiB

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Rows of n elements that make up about a chunk.
std::int64_t rows_per_chunk(std::int64_t n) {
  return std::max<std::int64_t>(1, chunk_elements / std::max<std::int64_t>(1, n));
}

/// out[group, c] = sum_k partial[group, k, c], k < parts, in a fixed order.
void combine(const double* partial, std::int64_t parts, std::int64_t inner, const Tensor& out) {
  const std::int64_t blocks = ceil_div(inner, column_block);
  const std::int64_t tasks = out.numel() / inner * blocks;
  const std::int64_t grain = rows_per_chunk(parts * std::min(inner, column_block));
  parallel_for(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
    double sums[column_block];
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t group = task / blocks, column = task % blocks * column_block;
      const std::int64_t columns = std::min(column_block, inner - column);
      HWY_DYNAMIC_DISPATCH(sum_partials)
      (partial + group * parts * inner + column, parts, columns, inner, sums);
      HWY_DYNAMIC_DISPATCH(store_chunk)(sums, columns, out, group * inner + column);
    }
  });
}

void sum_last(const Tensor& x, std::int64_t outer, std::int64_t reduced, const Tensor& out) {
  const std::int64_t parts = ceil_div(reduced, chunk_elements), tasks = outer * parts;
  const auto partial = std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(tasks));
  parallel_for(tasks, rows_per_chunk(reduced), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t row = task / parts * reduced, first = task % parts * chunk_elements;
      partial[static_cast<std::size_t>(task)] = HWY_DYNAMIC_DISPATCH(sum_of)(
          x, row + first, row + std::min(reduced, first + chunk_elements));
    }
  });
  if (parts > 1) return combine(partial.get(), parts, 1, out);
  HWY_DYNAMIC_DISPATCH(store_chunk)(partial.get(), outer, out, 0);
}

/// One block of columns of one chunk of rows.
struct ColumnTask {
  std::int64_t group;  // index in outer
  std::int64_t part, row, rows;
  std::int64_t column, columns;
};

/// Cuts [outer, reduced, inner] into tasks.
struct ColumnTasks {
  std::int64_t reduced, inner;
  std::int64_t blocks = ceil_div(inner, column_block);
  std::int64_t rows = rows_per_chunk(std::min(inner, column_block));
  std::int64_t parts = ceil_div(reduced, rows);

  std::int64_t per_group() const { return parts * blocks; }
  ColumnTask operator[](std::int64_t task) const {
    const std::int64_t part = task / blocks % parts, column = task % blocks * column_block;
    return {task / per_group(),
            part,
            part * rows,
            std::min(rows, reduced - part * rows),
            column,
            std::min(column_block, inner - column)};
  }
};

void sum_middle(const Tensor& x, std::int64_t outer, std::int64_t reduced, std::int64_t inner,
                const Tensor& out) {
  const ColumnTasks tasks{reduced, inner};
  const bool whole = tasks.parts == 1;
  const auto partial = std::make_unique_for_overwrite<double[]>(
      whole ? 0 : static_cast<std::size_t>(outer * tasks.parts * inner));
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    double sums[column_block];
    for (std::int64_t i = begin; i < end; ++i) {
      const ColumnTask t = tasks[i];
      double* to = whole ? sums
                         : &partial[static_cast<std::size_t>(
                               (t.group * tasks.parts + t.part) * inner + t.column)];
      HWY_DYNAMIC_DISPATCH(sum_rows_of)
      (x, (t.group * reduced + t.row) * inner + t.column, t.rows, t.columns, inner, to);
      if (whole)
        HWY_DYNAMIC_DISPATCH(store_chunk)(sums, t.columns, out, t.group * inner + t.column);
    }
  };
  parallel_for(outer * tasks.per_group(), ceil_div(tasks.rows, reduced), run);
  if (!whole) combine(partial.get(), tasks.parts, inner, out);
}

class CpuReduce final : public ReduceKernels {
 public:
  void sum(const Tensor& x, std::int64_t outer, std::int64_t reduced, std::int64_t inner,
           const Tensor& out) override {
    if (outer * reduced * inner == 0) return cpu_copy_kernels().fill(out, 0);
    if (inner == 1) return sum_last(x, outer, reduced, out);
    sum_middle(x, outer, reduced, inner, out);
  }

  void sum_of_squares(std::span<const Tensor> xs, const Tensor& sums) override {
    ChunkList chunks(chunk_elements);
    for (const Tensor& x : xs) chunks.add(x.defined() ? x.numel() : 0);
    const auto partial =
        std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(chunks.size()));
    parallel_for(chunks.size(), 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const Chunk chunk = chunks[i];
        partial[static_cast<std::size_t>(i)] =
            HWY_DYNAMIC_DISPATCH(sum_of_squares_of)(xs[chunk.item], chunk.begin, chunk.end);
      }
    });
    double* sum = sums.data<double>();
    std::fill_n(sum, xs.size(), 0.0);
    for (std::int64_t i = 0; i < chunks.size(); ++i) {
      sum[chunks[i].item] += partial[static_cast<std::size_t>(i)];
    }
  }

  void max(const Tensor& x, std::int64_t outer, std::int64_t reduced, std::int64_t inner,
           const Tensor& out) override {
    if (outer * reduced * inner == 0)
      return cpu_copy_kernels().fill(out, -std::numeric_limits<double>::infinity());
    if (inner == 1) {
      parallel_for(outer, rows_per_chunk(reduced), [&](std::int64_t begin, std::int64_t end) {
        HWY_DYNAMIC_DISPATCH(max_rows_chunk)(x, reduced, out, begin, end);
      });
      return;
    }
    const std::int64_t blocks = ceil_div(inner, column_block);
    parallel_for(outer * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t column = task % blocks * column_block;
        HWY_DYNAMIC_DISPATCH(max_columns_chunk)
        (x, task / blocks, reduced, inner, out, column, std::min(inner, column + column_block));
      }
    });
  }

  void argmax(const Tensor& x, const Tensor& out) override {
    const std::int64_t n = x.shape().back();
    parallel_for(out.numel(), rows_per_chunk(n), [&](std::int64_t begin, std::int64_t end) {
      HWY_DYNAMIC_DISPATCH(argmax_chunk)(x, n, out, begin, end);
    });
  }

  void cumsum(const Tensor& x, std::int64_t outer, std::int64_t n, std::int64_t inner, bool reverse,
              const Tensor& out) override {
    const std::int64_t blocks = ceil_div(inner, column_block);
    parallel_for(outer * blocks, ceil_div(rows_per_chunk(std::min(inner, column_block)), n + 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   double sums[column_block];
                   for (std::int64_t task = begin; task < end; ++task) {
                     const std::int64_t column = task % blocks * column_block;
                     HWY_DYNAMIC_DISPATCH(cumsum_chunk)
                     (x, task / blocks, n, inner, reverse, out, column,
                      std::min(inner, column + column_block), sums);
                   }
                 });
  }
};

}  // namespace

ReduceKernels& cpu_reduce_kernels() {
  static CpuReduce kernels;
  return kernels;
}

}  // namespace mobius
#endif  // HWY_ONCE
