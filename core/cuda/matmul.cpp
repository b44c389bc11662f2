// Matrix products: brings the operands into a form that the library takes (core/cuda/blas.h). What
// follows a product, as far as the library cannot do it, are operations of other families.
// Buffers: linear() overwrites pre and out (=); matmul() overwrites out, or adds to it (+=) when it
// accumulates.
#include "core/ops/matmul.h"

#include <cassert>
#include <optional>

#include "core/cuda/blas.h"
#include "core/cuda/kernels.h"
#include "core/cuda/runtime.h"
#include "core/ops/elementwise.h"

namespace mobius {
namespace {

// ---- operands

// Whether rows of `size` elements, of which each is dense, lie one after another.
bool are_dense(std::int64_t count, std::int64_t row_stride, std::int64_t size,
               std::int64_t element_stride) {
  return (size == 1 || element_stride == 1) && (count == 1 || row_stride >= size);
}
bool is_by_rows(const Tensor& x) {
  return are_dense(x.size(-2), x.stride(-2), x.size(-1), x.stride(-1));
}
bool is_by_columns(const Tensor& x) {
  return are_dense(x.size(-1), x.stride(-1), x.size(-2), x.stride(-2));
}

// The stride between the matrices of all batch dimensions together, if there is one.
std::optional<std::int64_t> batch_stride(const Tensor& x) {
  std::optional<std::int64_t> stride;
  std::int64_t span = 1;
  for (int dim = x.ndim() - 3; dim >= 0; --dim) {
    if (x.size(dim) == 1) continue;
    if (!stride) stride = x.stride(dim);
    if (x.stride(dim) != *stride * span) return std::nullopt;
    span *= x.size(dim);
  }
  return stride.value_or(0);
}

// x itself, or a dense copy if the library cannot take it as it is.
Tensor as_operand(const Tensor& x) {
  return (is_by_rows(x) || is_by_columns(x)) && batch_stride(x) ? x : x.contiguous();
}

cuda::Matrices matrices(const Tensor& x) {
  const bool by_columns = !is_by_rows(x);
  const int across = by_columns ? -1 : -2, along = by_columns ? -2 : -1;
  const std::int64_t leading = x.size(across) == 1 ? x.size(along) : x.stride(across);
  return {x.raw(), by_columns, leading, *batch_stride(x)};
}

// If all matrices of the last batch dimension of a are multiplied by the same b, stacks them into
// one taller product. Returns whether there was such a dimension.
bool fold_last_batch_dim(Tensor& a, Tensor& b, Tensor& out) {
  const int dim = a.ndim() - 3;
  if (dim < 0) return false;
  const bool is_shared = b.stride(dim) == 0 || b.size(dim) == 1;
  const bool is_stacked = a.size(dim) == 1 || a.stride(dim) == a.stride(-2) * a.size(-2);
  if (!is_shared || !is_stacked) return false;
  const auto fold = [dim](const Tensor& x) {
    Shape shape = x.shape();
    shape[static_cast<std::size_t>(dim + 1)] *= shape[static_cast<std::size_t>(dim)];
    shape.erase(shape.begin() + dim);
    return x.reshape(std::move(shape));
  };
  a = fold(a);
  b = b.slice(dim, 0, 1).squeeze(dim);
  out = fold(out);
  return true;
}

// ---- what follows

void fill_with_zeros(const Tensor& x) {
  cuda::check(cudaMemsetAsync(x.raw(), 0, x.bytes(), cuda::stream()), "filling with 0");
}

UnaryOp function_of(Activation activation) {
  switch (activation) {
    case Activation::silu:
      return UnaryOp::silu;
    case Activation::gelu:
      return UnaryOp::gelu;
    case Activation::gelu_tanh:
      return UnaryOp::gelu_tanh;
    case Activation::relu:
    case Activation::none:
      break;
  }
  return UnaryOp::relu;
}

class CudaMatmul final : public MatmulKernels {
 public:
  void matmul(const Tensor& a, const Tensor& b, bool accumulate, const Tensor& out) override {
    assert(out.is_contiguous());
    if (out.numel() == 0) return;
    if (a.size(-1) == 0) return accumulate ? void() : fill_with_zeros(out);
    Tensor left = a, right = b, result = out;
    while (fold_last_batch_dim(left, right, result)) {
    }
    left = as_operand(left);
    right = as_operand(right);
    const std::int64_t m = left.size(-2), n = right.size(-1), k = left.size(-1);
    cuda::multiply({.type = a.dtype(),
                    .batch = result.numel() / (m * n),
                    .m = m,
                    .n = n,
                    .k = k,
                    .a = matrices(left),
                    .b = matrices(right),
                    .bias = nullptr,
                    .out = result.raw(),
                    .accumulate = accumulate});
  }

  void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
              const Tensor& pre, const Tensor& out) override {
    if (pre.numel() == 0) return;
    if (!multiply_with_bias(x, weight, bias, pre))
      cuda_elementwise_kernels().add_in_place(pre, bias.expand(pre.shape()));
    if (activation != Activation::none)
      cuda_elementwise_kernels().unary({function_of(activation)}, pre, out);
  }

 private:
  // Returns false if the bias is left to add.
  static bool multiply_with_bias(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Tensor& pre) {
    if (x.size(1) == 0) {
      fill_with_zeros(pre);
      return !bias.defined();
    }
    return cuda::multiply({.type = x.dtype(),
                           .batch = 1,
                           .m = x.size(0),
                           .n = weight.size(0),
                           .k = x.size(1),
                           .a = matrices(x),
                           .b = matrices(weight.transpose(0, 1)),
                           .bias = bias.defined() ? bias.raw() : nullptr,
                           .out = pre.raw(),
                           .accumulate = false}) ||
           !bias.defined();
  }
};

}  // namespace

MatmulKernels& cuda_matmul_kernels() { return only<CudaMatmul>(); }

}  // namespace mobius
