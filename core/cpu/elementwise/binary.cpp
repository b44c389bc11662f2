// Functions of two and three strided operands: arithmetic, comparison, selection, and the in-place
// forms. A row of an operand is dense, one repeated value or strided; the loop over each
// combination is left to the compiler's vectoriser, once for each instruction set and type.
//
// Buffers: out is dense (strided for the in-place forms) and overwritten (=); it must not overlap
// the operands, but that the in-place forms read it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/elementwise/binary.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <type_traits>

#include "core/cpu/elementwise/kernels.h"
#include "core/cpu/grain.h"
#include "core/cpu/strided.h"
#include "core/error.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

// ---- a row of an operand

template <class T>
struct Repeated {
  T value;
  T operator[](std::int64_t) const { return value; }
};

template <class T>
struct Spaced {
  const T* first;
  std::int64_t step;
  T operator[](std::int64_t i) const { return first[i * step]; }
};

/// Calls fn with an object whose [i] is element i of the row. Integers and bf16 do without the two
/// fast forms: each more loop is time to compile.
template <class T, class Fn>
void with_row(const T* first, std::int64_t step, Fn&& fn) {
  if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, std::uint8_t>) {
    if (step == 1) return fn(first);
    if (step == 0) return fn(Repeated<T>{*first});
  }
  fn(Spaced<T>{first, step});
}

// ---- operations on one pair of elements

/// The type to compute in: bf16 in float, integers unsigned (they wrap around), others as they are.
template <class T>
struct ComputeType {
  using type = T;
};
template <>
struct ComputeType<BFloat16> {
  using type = float;
};
template <>
struct ComputeType<std::int32_t> {
  using type = std::uint32_t;
};
template <>
struct ComputeType<std::int64_t> {
  using type = std::uint64_t;
};

struct AddOp {
  template <class T>
  T operator()(T a, T b) const {
    using C = typename ComputeType<T>::type;
    return static_cast<T>(static_cast<C>(a) + static_cast<C>(b));
  }
};

struct SubOp {
  template <class T>
  T operator()(T a, T b) const {
    using C = typename ComputeType<T>::type;
    return static_cast<T>(static_cast<C>(a) - static_cast<C>(b));
  }
};

struct MulOp {
  template <class T>
  T operator()(T a, T b) const {
    using C = typename ComputeType<T>::type;
    return static_cast<T>(static_cast<C>(a) * static_cast<C>(b));
  }
};

struct DivOp {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) throw Error("div: division of an integer by zero");
      if (b == static_cast<T>(-1) && std::is_signed_v<T>) return SubOp()(T{0}, a);  // may wrap
      return static_cast<T>(a / b);
    } else {
      using C = typename ComputeType<T>::type;
      return static_cast<T>(static_cast<C>(a) / static_cast<C>(b));
    }
  }
};

/// The type to compare in: unlike ComputeType, it keeps the sign of integers.
template <class T>
using CompareType = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;

// The larger and the smaller one; a NaN wins over any number.
struct MaximumOp {
  template <class T>
  T operator()(T a, T b) const {
    const auto x = static_cast<CompareType<T>>(a), y = static_cast<CompareType<T>>(b);
    return x > y || x != x ? a : b;
  }
};

struct MinimumOp {
  template <class T>
  T operator()(T a, T b) const {
    const auto x = static_cast<CompareType<T>>(a), y = static_cast<CompareType<T>>(b);
    return x < y || x != x ? a : b;
  }
};

struct LessOp {
  template <class T>
  std::uint8_t operator()(T a, T b) const {
    return static_cast<CompareType<T>>(a) < static_cast<CompareType<T>>(b);
  }
};

struct LessEqualOp {
  template <class T>
  std::uint8_t operator()(T a, T b) const {
    return static_cast<CompareType<T>>(a) <= static_cast<CompareType<T>>(b);
  }
};

struct EqualOp {
  template <class T>
  std::uint8_t operator()(T a, T b) const {
    return static_cast<CompareType<T>>(a) == static_cast<CompareType<T>>(b);
  }
};

// ---- drivers

// Everything by value: through a reference, a store to `out` could change what the loop reads.
template <class Out, class X, class Y, class Op>
void map_row(Op op, X x, Y y, Out* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = op(x[i], y[i]);
}

template <class T, class X, class Y, class Z>
void select_row(X choose, Y x, Z y, T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T a = x[i], b = y[i];  // ahead of the choice: no branch
    out[i] = choose[i] ? a : b;
  }
}

/// out[i] = op(a[i], b[i]) over elements [begin, end) of the walk over (a, b); `out` is dense.
template <class Out, class T, class Op>
void map_pairs(Op op, const StridedWalk<2>& walk, const T* a, const T* b, Out* out,
               std::int64_t begin, std::int64_t end) {
  Out* row_out = out + begin;
  walk.for_pieces(begin, end, [&](const auto& offsets, std::int64_t n) {
    with_row(a + offsets[0], walk.step()[0], [&](auto x) {
      with_row(b + offsets[1], walk.step()[1], [&](auto y) { map_row(op, x, y, row_out, n); });
    });
    row_out += n;
  });
}

void binary_chunk(BinaryOp op, const StridedWalk<2>& walk, const Tensor& a, const Tensor& b,
                  const Tensor& out, std::int64_t begin, std::int64_t end) {
  dispatch_any(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = [&](auto function) {
      map_pairs(function, walk, a.data<T>(), b.data<T>(), out.data<T>(), begin, end);
    };
    switch (op) {
      case BinaryOp::add:
        return run(AddOp{});
      case BinaryOp::sub:
        return run(SubOp{});
      case BinaryOp::mul:
        return run(MulOp{});
      case BinaryOp::div:
        return run(DivOp{});
      case BinaryOp::maximum:
        return run(MaximumOp{});
      case BinaryOp::minimum:
        return run(MinimumOp{});
    }
  });
}

void compare_chunk(CompareOp op, const StridedWalk<2>& walk, const Tensor& a, const Tensor& b,
                   const Tensor& out, std::int64_t begin, std::int64_t end) {
  dispatch_any(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = [&](auto function) {
      map_pairs(function, walk, a.data<T>(), b.data<T>(), out.data<std::uint8_t>(), begin, end);
    };
    switch (op) {
      case CompareOp::less:
        return run(LessOp{});
      case CompareOp::less_equal:
        return run(LessEqualOp{});
      case CompareOp::equal:
        return run(EqualOp{});
    }
  });
}

void where_chunk(const StridedWalk<3>& walk, const Tensor& condition, const Tensor& a,
                 const Tensor& b, const Tensor& out, std::int64_t begin, std::int64_t end) {
  dispatch_any(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* row_out = out.data<T>() + begin;
    walk.for_pieces(begin, end, [&](const auto& offsets, std::int64_t n) {
      with_row(condition.data<std::uint8_t>() + offsets[0], walk.step()[0], [&](auto choose) {
        with_row(a.data<T>() + offsets[1], walk.step()[1], [&](auto x) {
          with_row(b.data<T>() + offsets[2], walk.step()[2],
                   [&](auto y) { select_row(choose, x, y, row_out, n); });
        });
      });
      row_out += n;
    });
  });
}

void add_in_place_chunk(const StridedWalk<2>& walk, const Tensor& out, const Tensor& x,
                        std::int64_t begin, std::int64_t end) {
  dispatch_any(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    walk.for_pieces(begin, end, [&](const auto& offsets, std::int64_t n) {
      T* sum = out.data<T>() + offsets[0];
      const std::int64_t step = walk.step()[0];
      with_row(x.data<T>() + offsets[1], walk.step()[1], [&](auto row) {
        if (step == 1)
          for (std::int64_t i = 0; i < n; ++i) sum[i] = AddOp()(sum[i], row[i]);
        else
          for (std::int64_t i = 0; i < n; ++i) sum[i * step] = AddOp()(sum[i * step], row[i]);
      });
    });
  });
}

void scale_in_place_chunk(const StridedWalk<1>& walk, const Tensor& out, double factor,
                          std::int64_t begin, std::int64_t end) {
  dispatch_real("scale_in_place", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    walk.for_pieces(begin, end, [&](const auto& offsets, std::int64_t n) {
      T* row = out.data<T>() + offsets[0];
      const std::int64_t step = walk.step()[0];
      const T by = static_cast<T>(factor);
      if (step == 1)
        for (std::int64_t i = 0; i < n; ++i) row[i] *= by;
      else
        for (std::int64_t i = 0; i < n; ++i) row[i * step] *= by;
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(binary_chunk);
HWY_EXPORT(compare_chunk);
HWY_EXPORT(where_chunk);
HWY_EXPORT(add_in_place_chunk);
HWY_EXPORT(scale_in_place_chunk);

void CpuElementwise::binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out) {
  const StridedWalk<2> walk(out.shape(), {&a.strides(), &b.strides()});
  parallel_for(out.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(binary_chunk)(op, walk, a, b, out, begin, end);
  });
}

void CpuElementwise::compare(CompareOp op, const Tensor& a, const Tensor& b, const Tensor& out) {
  const StridedWalk<2> walk(out.shape(), {&a.strides(), &b.strides()});
  parallel_for(out.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(compare_chunk)(op, walk, a, b, out, begin, end);
  });
}

void CpuElementwise::where(const Tensor& condition, const Tensor& a, const Tensor& b,
                           const Tensor& out) {
  const StridedWalk<3> walk(out.shape(), {&condition.strides(), &a.strides(), &b.strides()});
  parallel_for(out.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(where_chunk)(walk, condition, a, b, out, begin, end);
  });
}

void CpuElementwise::add_in_place(const Tensor& out, const Tensor& x) {
  const StridedWalk<2> walk(out.shape(), {&out.strides(), &x.strides()});
  parallel_for(out.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_in_place_chunk)(walk, out, x, begin, end);
  });
}

void CpuElementwise::scale_in_place(const Tensor& out, double factor) {
  const StridedWalk<1> walk(out.shape(), {&out.strides()});
  parallel_for(out.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(scale_in_place_chunk)(walk, out, factor, begin, end);
  });
}

}  // namespace mobius
#endif  // HWY_ONCE
