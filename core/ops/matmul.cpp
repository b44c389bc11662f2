#include "core/ops/matmul.h"

#include "core/ops/checks.h"

namespace mobius {

namespace {

DType product_type(DType operand) { return operand == DType::bf16 ? DType::f32 : operand; }

}  // namespace

Tensor product_operand(const Tensor& x, MatmulPrecision precision) {
  if (precision == MatmulPrecision::full || x.dtype() == DType::bf16) return x;
  if (x.dtype() != DType::f32)
    throw Error("products in bf16: expected f32 operands, got {}", name_of(x.dtype()));
  return x.to(DType::bf16);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  require_product_operand("matmul", a);
  require_same_kind("matmul", "b", a, b);
  if (a.ndim() < 2 || b.ndim() < 2 || a.size(-1) != b.size(-2)) {
    throw ShapeError("matmul: {} x {}: expected [..., M, K] x [..., K, N]", to_string(a.shape()),
                     to_string(b.shape()));
  }
  const Shape batch = broadcast_shapes("matmul", {a.shape().begin(), a.shape().end() - 2},
                                       {b.shape().begin(), b.shape().end() - 2});
  const auto with_batch = [&batch](std::int64_t rows, std::int64_t cols) {
    Shape shape = batch;
    shape.push_back(rows);
    shape.push_back(cols);
    return shape;
  };
  Tensor out =
      Tensor::empty(with_batch(a.size(-2), b.size(-1)), product_type(a.dtype()), a.device());
  kernels(a, &Backend::matmul)
      ->matmul(a.expand(with_batch(a.size(-2), a.size(-1))),
               b.expand(with_batch(b.size(-2), b.size(-1))), false, out);
  return out;
}

void matmul_add(Tensor& out, const Tensor& a, const Tensor& b) {
  require_product_operand("matmul_add", a);
  require_same_kind("matmul_add", "b", a, b);
  require_same_device("matmul_add", "out", a, out);
  if (out.dtype() != product_type(a.dtype())) {
    throw ShapeError("matmul_add: out is {}, but products of {} are {}", name_of(out.dtype()),
                     name_of(a.dtype()), name_of(product_type(a.dtype())));
  }
  if (a.ndim() != 2 || b.ndim() != 2 || a.size(1) != b.size(0)) {
    throw ShapeError("matmul_add: {} x {}: expected [M, K] x [K, N]", to_string(a.shape()),
                     to_string(b.shape()));
  }
  require_shape("matmul_add", "out", out, {a.size(0), b.size(1)});
  kernels(a, &Backend::matmul)->matmul(a, b, true, out);
  out.bump_version();
}

LinearActivation linear_activation(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   Activation activation) {
  require_product_operand("linear", x);
  require_same_kind("linear", "weight", x, weight);
  if (weight.ndim() != 2 || x.ndim() == 0 || x.size(-1) != weight.size(1)) {
    throw ShapeError("linear: x {} and weight {}: expected [..., K] and [N, K]",
                     to_string(x.shape()), to_string(weight.shape()));
  }
  LinearActivation result;
  result.pre =
      Tensor::empty(with_last(x.shape(), weight.size(0)), product_type(x.dtype()), x.device());
  require_optional("linear", "bias", bias, result.pre, {weight.size(0)});
  if (activation != Activation::none) result.out = result.pre.empty_like();
  kernels(x, &Backend::matmul)
      ->linear(as_rows("linear", x), weight.contiguous(), contiguous_if_defined(bias), activation,
               result.pre, result.out);
  return result;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return linear_activation(x, weight, bias, Activation::none).pre;
}

}  // namespace mobius
