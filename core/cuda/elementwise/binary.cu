// Functions of two and three strided operands: arithmetic, comparison, selection, and the in-place
// forms. Arithmetic of f32 and f64 is compiled for each operation. bf16, which computes in f32, the
// integers, which compute in i64, and comparisons look up the operation at each element.
//
// Buffers: out is overwritten (=). It must not overlap the operands, except in the in-place forms,
// which read it.
#include "core/cuda/elementwise/kernels.h"
#include "core/cuda/strided.cuh"
#include "core/error.h"
#include "core/ops/copy.h"

namespace mobius::cuda {
namespace {

// ---- arithmetic

template <BinaryOp op, class T>
__device__ T apply(T a, T b) {
  if constexpr (op == BinaryOp::add) return a + b;
  if constexpr (op == BinaryOp::sub) return a - b;
  if constexpr (op == BinaryOp::mul) return a * b;
  if constexpr (op == BinaryOp::div) return a / b;
  // A NaN wins over any number.
  if constexpr (op == BinaryOp::maximum) return a > b || a != a ? a : b;
  if constexpr (op == BinaryOp::minimum) return a < b || a != a ? a : b;
}

template <BinaryOp op>
struct Arithmetic {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return apply<op>(a, b);
  }
};

template <class T>
__device__ T apply(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::add:
      return apply<BinaryOp::add>(a, b);
    case BinaryOp::sub:
      return apply<BinaryOp::sub>(a, b);
    case BinaryOp::mul:
      return apply<BinaryOp::mul>(a, b);
    case BinaryOp::div:
      return apply<BinaryOp::div>(a, b);
    case BinaryOp::maximum:
      return apply<BinaryOp::maximum>(a, b);
    case BinaryOp::minimum:
      return apply<BinaryOp::minimum>(a, b);
  }
  return a;
}

struct Bf16Arithmetic {
  BinaryOp op;
  __device__ BFloat16 operator()(BFloat16 a, BFloat16 b) const {
    return BFloat16(apply(op, static_cast<float>(a), static_cast<float>(b)));
  }
};

/// Wraps around. Sets *divides_by_zero where it would.
struct IntegerArithmetic {
  BinaryOp op;
  std::int32_t* divides_by_zero;

  template <class T>
  __device__ T operator()(T a, T b) const {
    const auto x = static_cast<std::int64_t>(a), y = static_cast<std::int64_t>(b);
    if (op == BinaryOp::div) return static_cast<T>(quotient(x, y));
    if (op == BinaryOp::maximum || op == BinaryOp::minimum) return static_cast<T>(apply(op, x, y));
    return static_cast<T>(apply(op, static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(y)));
  }

 private:
  __device__ std::int64_t quotient(std::int64_t a, std::int64_t b) const {
    if (b == 0) {
      atomicExch(divides_by_zero, 1);
      return 0;
    }
    return b == -1 ? static_cast<std::int64_t>(-static_cast<std::uint64_t>(a)) : a / b;
  }
};

template <class T>
void real_binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out) {
  const auto run = [&]<BinaryOp kOp>(Arithmetic<kOp> f) { map<T, T, T>(f, out, a, b); };
  switch (op) {
    case BinaryOp::add:
      return run(Arithmetic<BinaryOp::add>());
    case BinaryOp::sub:
      return run(Arithmetic<BinaryOp::sub>());
    case BinaryOp::mul:
      return run(Arithmetic<BinaryOp::mul>());
    case BinaryOp::div:
      return run(Arithmetic<BinaryOp::div>());
    case BinaryOp::maximum:
      return run(Arithmetic<BinaryOp::maximum>());
    case BinaryOp::minimum:
      return run(Arithmetic<BinaryOp::minimum>());
  }
}

/// The host waits for a division, to report one by zero.
template <class T>
void integer_binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out) {
  if (op != BinaryOp::div) return map<T, T, T>(IntegerArithmetic{op, nullptr}, out, a, b);
  const Tensor divides_by_zero = Tensor::zeros({1}, DType::i32, out.device());
  map<T, T, T>(IntegerArithmetic{op, divides_by_zero.data<std::int32_t>()}, out, a, b);
  if (divides_by_zero.item() != 0) throw Error("div: division of an integer by zero");
}

// ---- comparison and selection

template <class T>
__device__ bool holds(CompareOp op, T a, T b) {
  return op == CompareOp::less ? a < b : op == CompareOp::less_equal ? a <= b : a == b;
}

struct Compare {
  CompareOp op;

  template <class T>
  __device__ std::uint8_t operator()(T a, T b) const {
    return holds(op, a, b);
  }
  __device__ std::uint8_t operator()(BFloat16 a, BFloat16 b) const {
    return holds(op, static_cast<float>(a), static_cast<float>(b));
  }
};

struct Choose {
  template <class Word>
  __device__ Word operator()(std::uint8_t condition, Word a, Word b) const {
    return condition ? a : b;
  }
};

template <class T>
struct Scale {
  T factor;
  __device__ T operator()(T x) const { return factor * x; }
};

}  // namespace

void CudaElementwise::binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out) {
  dispatch_any(out.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_floating_point_v<T>)
      real_binary<T>(op, a, b, out);
    else if constexpr (std::is_integral_v<T>)
      integer_binary<T>(op, a, b, out);
    else
      map<T, T, T>(Bf16Arithmetic{op}, out, a, b);
  });
}

void CudaElementwise::compare(CompareOp op, const Tensor& a, const Tensor& b, const Tensor& out) {
  dispatch_any(a.dtype(),
               [&]<class T>(TypeTag<T>) { map<std::uint8_t, T, T>(Compare{op}, out, a, b); });
}

void CudaElementwise::where(const Tensor& condition, const Tensor& a, const Tensor& b,
                            const Tensor& out) {
  dispatch_word(out.dtype(), [&]<class Word>(Word) {
    map<Word, std::uint8_t, Word, Word>(Choose(), out, condition, a, b);
  });
}

void CudaElementwise::add_in_place(const Tensor& out, const Tensor& x) {
  binary(BinaryOp::add, out, x, out);
}

void CudaElementwise::scale_in_place(const Tensor& out, double factor) {
  dispatch_real("scale_in_place", out.dtype(), [&]<class T>(TypeTag<T>) {
    map<T, T>(Scale<T>{static_cast<T>(factor)}, out, out);
  });
}

}  // namespace mobius::cuda
