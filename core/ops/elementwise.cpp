#include "core/ops/elementwise.h"

#include "core/ops/checks.h"

namespace mobius {

Tensor unary(const Unary& f, const Tensor& x) {
  require_real("unary", x);
  const Tensor dense = x.contiguous();
  Tensor y = dense.empty_like();
  kernels(x, &Backend::elementwise)->unary(f, dense, y);
  return y;
}

Tensor unary_backward(const Unary& f, const Tensor& x, const Tensor& y, const Tensor& grad_y) {
  constexpr std::string_view op = "unary_backward";
  require_real(op, x);
  require_like(op, "y", y, x, x.shape());
  require_like(op, "grad_y", grad_y, x, x.shape());
  const Tensor dense = x.contiguous();
  Tensor grad_x = dense.empty_like();
  kernels(x, &Backend::elementwise)
      ->unary_backward(f, dense, y.contiguous(), grad_y.contiguous(), grad_x);
  return grad_x;
}

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  require_real("swiglu", gate);
  require_like("swiglu", "up", up, gate, gate.shape());
  Tensor out = gate.empty_like();
  kernels(out, &Backend::elementwise)->swiglu(gate.contiguous(), up.contiguous(), out);
  return out;
}

SwigluGrads swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& grad_out) {
  constexpr std::string_view op = "swiglu_backward";
  require_real(op, gate);
  require_like(op, "up", up, gate, gate.shape());
  require_like(op, "grad_out", grad_out, gate, gate.shape());
  SwigluGrads grads{gate.empty_like(), up.empty_like()};
  kernels(gate, &Backend::elementwise)
      ->swiglu_backward(gate.contiguous(), up.contiguous(), grad_out.contiguous(), grads.gate,
                        grads.up);
  return grads;
}

namespace {

Tensor binary(std::string_view op, BinaryOp kind, const Tensor& a, const Tensor& b) {
  require_same_kind(op, "b", a, b);
  const Shape shape = broadcast_shapes(op, a.shape(), b.shape());
  Tensor out = Tensor::empty(shape, a.dtype(), a.device());
  kernels(a, &Backend::elementwise)->binary(kind, a.expand(shape), b.expand(shape), out);
  return out;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return binary("add", BinaryOp::add, a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary("sub", BinaryOp::sub, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary("mul", BinaryOp::mul, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return binary("div", BinaryOp::div, a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) {
  return binary("maximum", BinaryOp::maximum, a, b);
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  return binary("minimum", BinaryOp::minimum, a, b);
}

Tensor affine(const Tensor& x, double a, double b) { return unary({UnaryOp::affine, a, b}, x); }

Tensor compare(CompareOp op, const Tensor& a, const Tensor& b) {
  require_same_kind("compare", "b", a, b);
  const Shape shape = broadcast_shapes("compare", a.shape(), b.shape());
  Tensor out = Tensor::empty(shape, DType::u8, a.device());
  kernels(a, &Backend::elementwise)->compare(op, a.expand(shape), b.expand(shape), out);
  return out;
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require_same_kind("where", "b", a, b);
  require_dtype("where", "the condition", condition, a, DType::u8);
  const Shape values = broadcast_shapes("where", a.shape(), b.shape());
  const Shape shape = broadcast_shapes("where", condition.shape(), values);
  Tensor out = Tensor::empty(shape, a.dtype(), a.device());
  kernels(a, &Backend::elementwise)
      ->where(condition.expand(shape), a.expand(shape), b.expand(shape), out);
  return out;
}

}  // namespace mobius
