// Functions of two and three strided operands: arithmetic, comparison, selection, and the in-place
// forms. Rows of f32 and f64 that are dense or repeat one value are read in place. All others are
// copied into that form, one block at a time, bf16 as f32 and integers as i64, so that each
// operation is compiled for three types and one form only.
//
// Buffers: out is overwritten (=). It must not overlap the operands, except in the in-place forms,
// which read it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/elementwise/binary.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "core/cpu/elementwise/kernels.h"
#include "core/cpu/simd/vectors-inl.h"
#include "core/cpu/strided.h"
#include "core/error.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

// ---- operations on two vectors of f32 or f64, and on two i64, which wrap around

template <BinaryOp op, class V>
HWY_INLINE V apply(V a, V b) {
  if constexpr (op == BinaryOp::add) return hn::Add(a, b);
  if constexpr (op == BinaryOp::sub) return hn::Sub(a, b);
  if constexpr (op == BinaryOp::mul) return hn::Mul(a, b);
  if constexpr (op == BinaryOp::div) return hn::Div(a, b);
  // A NaN wins over any number.
  if constexpr (op == BinaryOp::maximum)
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  if constexpr (op == BinaryOp::minimum)
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
}

template <BinaryOp op>
std::int64_t apply(std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  if constexpr (op == BinaryOp::add) return static_cast<std::int64_t>(x + y);
  if constexpr (op == BinaryOp::sub) return static_cast<std::int64_t>(x - y);
  if constexpr (op == BinaryOp::mul) return static_cast<std::int64_t>(x * y);
  if constexpr (op == BinaryOp::maximum) return std::max(a, b);
  if constexpr (op == BinaryOp::minimum) return std::min(a, b);
  if (b == 0) throw Error("div: division of an integer by zero");
  return b == -1 ? static_cast<std::int64_t>(0 - x) : a / b;  // -a may wrap around
}

// Comparisons give 1 or 0.
template <CompareOp op, class V>
HWY_INLINE V apply(V a, V b) {
  const hn::DFromV<V> d;
  const auto one = hn::Set(d, hn::TFromV<V>{1});
  if constexpr (op == CompareOp::less) return hn::IfThenElseZero(hn::Lt(a, b), one);
  if constexpr (op == CompareOp::less_equal) return hn::IfThenElseZero(hn::Le(a, b), one);
  if constexpr (op == CompareOp::equal) return hn::IfThenElseZero(hn::Eq(a, b), one);
}

template <CompareOp op>
std::int64_t apply(std::int64_t a, std::int64_t b) {
  return op == CompareOp::less ? a < b : op == CompareOp::less_equal ? a <= b : a == b;
}

// ---- rows

/// Element i is data[i * step]. The step is 1, or 0 if the row repeats one value; `data` then holds
/// a whole vector of it.
template <class C>
struct Row {
  const C* data;
  std::int64_t step;
};

template <class C>
using RowFunction = void (*)(Row<C> a, Row<C> b, C* out, std::int64_t n);

template <auto op, class C>
void apply_row(Row<C> a, Row<C> b, C* out, std::int64_t n) {
  if constexpr (std::is_integral_v<C>) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = apply<op>(a.data[i * a.step], b.data[i * b.step]);
  } else {
    for_vectors<C>(n, [&](auto, auto memory, std::int64_t i) HWY_ATTR {
      const auto x = memory.load(a.data + i * a.step), y = memory.load(b.data + i * b.step);
      memory.store(apply<op>(x, y), out + i);
    });
  }
}

template <class C, auto... ops, class Op>
RowFunction<C> row_function_among(Op op) {
  RowFunction<C> found = nullptr;
  ((op == ops ? void(found = apply_row<ops, C>) : void()), ...);
  return found;
}

template <class C>
RowFunction<C> row_function(BinaryOp op) {
  using enum BinaryOp;
  return row_function_among<C, add, sub, mul, div, maximum, minimum>(op);
}

template <class C>
RowFunction<C> row_function(CompareOp op) {
  using enum CompareOp;
  return row_function_among<C, less, less_equal, equal>(op);
}

/// The type to compute in: bf16 in float, integers in i64 (narrowed, its results wrap around as
/// theirs would), others as they are.
template <class T>
using ComputeType = std::conditional_t<std::is_same_v<T, BFloat16>, float,
                                       std::conditional_t<std::is_integral_v<T>, std::int64_t, T>>;

constexpr std::int64_t block = 512;  // elements brought into form at a time

/// n <= block elements, `step` apart, as a row; `scratch` has room for a block.
template <class C, class T>
Row<C> load_row(const T* from, std::int64_t step, std::int64_t n, C* scratch) {
  if (step == 0) {  // stored as it will be loaded: by one instruction
    const hn::ScalableTag<C> d;
    hn::Store(hn::Set(d, static_cast<C>(*from)), d, scratch);
    return {scratch, 0};
  }
  for (std::int64_t i = 0; i < n; ++i) scratch[i] = static_cast<C>(from[i * step]);
  return {scratch, 1};
}

template <class C, class Out>
void store_row(const C* row, std::int64_t n, Out* to, std::int64_t step) {
  if (step == 1)
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<Out>(row[i]);
  else
    for (std::int64_t i = 0; i < n; ++i) to[i * step] = static_cast<Out>(row[i]);
}

/// out = function(a, b) for elements [begin, end) of the walk over (a, b, out).
template <class T, class Out, class C = ComputeType<T>>
void map_pairs(RowFunction<C> function, const StridedWalk<3>& walk, const T* a, const T* b,
               Out* out, std::int64_t begin, std::int64_t end) {
  HWY_ALIGN C scratch[3][block];
  const auto [a_step, b_step, out_step] = walk.step();
  const auto load = [](const T* from, std::int64_t step, std::int64_t n, C* to) -> Row<C> {
    if constexpr (std::is_same_v<C, T>) {
      if (step == 1) return {from, 1};
    }
    return load_row(from, step, n, to);
  };
  const bool is_direct = std::is_same_v<C, T> && std::is_same_v<C, Out> && out_step == 1;
  const bool is_whole = is_direct && a_step <= 1 && b_step <= 1;
  walk.for_pieces(begin, end, [&](const auto& at, std::int64_t size) {
    const std::int64_t most = is_whole ? size : block;
    for (std::int64_t i = 0; i < size; i += most) {
      const std::int64_t n = std::min(most, size - i);
      const Row<C> x = load(a + at[0] + i * a_step, a_step, n, scratch[0]);
      const Row<C> y = load(b + at[1] + i * b_step, b_step, n, scratch[1]);
      Out* const to = out + at[2] + i * out_step;
      if constexpr (std::is_same_v<C, Out>) {
        if (is_direct) {
          function(x, y, to, n);
          continue;
        }
      }
      function(x, y, scratch[2], n);
      store_row(scratch[2], n, to, out_step);
    }
  });
}

/// Op is BinaryOp, out being of the type of a and b, or CompareOp, out being u8.
template <class Op>
void map_pairs_of(Op op, const Tensor& a, const Tensor& b, const Tensor& out) {
  const StridedWalk<3> walk(out.shape(), {&a.strides(), &b.strides(), &out.strides()});
  dispatch_any(a.dtype(), [&]<class T>(TypeTag<T>) {
    using Out = std::conditional_t<std::is_same_v<Op, CompareOp>, std::uint8_t, T>;
    const auto function = row_function<ComputeType<T>>(op);
    parallel_for(out.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
      map_pairs<T, Out>(function, walk, a.data<T>(), b.data<T>(), out.data<Out>(), begin, end);
    });
  });
}

void binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out) {
  map_pairs_of(op, a, b, out);
}
void compare(CompareOp op, const Tensor& a, const Tensor& b, const Tensor& out) {
  map_pairs_of(op, a, b, out);
}

// ---- selection, of words of the size of an element

/// Returns n <= block elements, from i on, of the row at `row` as a dense row. `scratch` keeps its
/// content between calls: a repeated value is written at i = 0 only.
template <class Word>
const Word* dense_row(const Word* row, std::int64_t step, std::int64_t i, std::int64_t n,
                      Word* scratch) {
  if (step == 1) return row + i;
  if (step == 0 && i == 0) std::fill_n(scratch, n, *row);
  for (std::int64_t k = 0; k < n && step != 0; ++k) scratch[k] = row[(i + k) * step];
  return scratch;
}

template <class Word>
void select_words(const StridedWalk<3>& walk, const std::uint8_t* condition, const Word* a,
                  const Word* b, Word* out, std::int64_t begin, std::int64_t end) {
  std::uint8_t chosen[block];
  Word x[block], y[block];
  const auto& step = walk.step();
  Word* to = out + begin;
  walk.for_pieces(begin, end, [&](const auto& at, std::int64_t size) {
    for (std::int64_t i = 0; i < size; i += block) {
      const std::int64_t n = std::min(block, size - i);
      const auto* from = dense_row(condition + at[0], step[0], i, n, chosen);
      const auto* first = dense_row(a + at[1], step[1], i, n, x);
      const auto* second = dense_row(b + at[2], step[2], i, n, y);
      for (std::int64_t k = 0; k < n; ++k) {
        const Word p = first[k], q = second[k];  // ahead of the choice: no branch
        to[k] = from[k] ? p : q;
      }
      to += n;
    }
  });
}

void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& out) {
  const StridedWalk<3> walk(out.shape(), {&condition.strides(), &a.strides(), &b.strides()});
  dispatch_word(out.dtype(), [&](auto word) {
    using Word = decltype(word);
    parallel_for(out.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
      select_words(walk, condition.data<std::uint8_t>(), static_cast<const Word*>(a.raw()),
                   static_cast<const Word*>(b.raw()), static_cast<Word*>(out.raw()), begin, end);
    });
  });
}

// ---- scaling

void scale_in_place(const Tensor& out, double factor) {
  const StridedWalk<1> walk(out.shape(), {&out.strides()});
  dispatch_real("scale_in_place", out.dtype(), [&]<class T>(TypeTag<T>) {
    const std::int64_t step = walk.step()[0];
    const T by = static_cast<T>(factor);
    parallel_for(out.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
      walk.for_pieces(begin, end, [&](const auto& at, std::int64_t n) {
        T* const row = out.data<T>() + at[0];
        if (step == 1)
          for (std::int64_t i = 0; i < n; ++i) row[i] *= by;
        else
          for (std::int64_t i = 0; i < n; ++i) row[i * step] *= by;
      });
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(binary);
HWY_EXPORT(compare);
HWY_EXPORT(where);
HWY_EXPORT(scale_in_place);

void CpuElementwise::binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out) {
  HWY_DYNAMIC_DISPATCH(binary)(op, a, b, out);
}

void CpuElementwise::compare(CompareOp op, const Tensor& a, const Tensor& b, const Tensor& out) {
  HWY_DYNAMIC_DISPATCH(compare)(op, a, b, out);
}

void CpuElementwise::where(const Tensor& condition, const Tensor& a, const Tensor& b,
                           const Tensor& out) {
  HWY_DYNAMIC_DISPATCH(where)(condition, a, b, out);
}

void CpuElementwise::add_in_place(const Tensor& out, const Tensor& x) {
  HWY_DYNAMIC_DISPATCH(binary)(BinaryOp::add, out, x, out);
}

void CpuElementwise::scale_in_place(const Tensor& out, double factor) {
  HWY_DYNAMIC_DISPATCH(scale_in_place)(out, factor);
}

}  // namespace mobius
#endif  // HWY_ONCE
