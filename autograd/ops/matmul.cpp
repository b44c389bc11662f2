#include "autograd/ops.h"

namespace mobius {
namespace {

Tensor as_matrix(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// The gradients of y[..., N] = x[..., K] weight[N, K]^T + bias[N]. x and weight have the precision
// of the product.
Grads linear_backward(const Tensor& x, const Tensor& weight, const Tensor& grad_y,
                      const NeedsGrad& needs) {
  Grads grads(3);
  const Tensor grad_rows = as_matrix(grad_y);
  const Tensor operand = needs[0] || needs[1] ? grad_rows.to(x.dtype()) : Tensor();
  if (needs[0]) grads[0] = matmul(operand, weight).reshape(x.shape());
  if (needs[1]) grads[1] = matmul(operand.transpose(0, 1), as_matrix(x));
  if (needs[2]) grads[2] = sum(grad_rows, {0});
  return grads;
}

UnaryOp unary_of(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return UnaryOp::relu;
    case Activation::silu:
      return UnaryOp::silu;
    case Activation::gelu:
      return UnaryOp::gelu;
    case Activation::gelu_tanh:
      return UnaryOp::gelu_tanh;
    case Activation::none:
      break;
  }
  throw Error("linear_activation: no activation given");
}

}  // namespace

Variable matmul(const Variable& a, const Variable& b) {
  return record(
      "matmul", {a, b}, matmul(a.data(), b.data()),
      [a = Saved("matmul", a), b = Saved("matmul", b)](const Grads& grads, const NeedsGrad& needs) {
        Grads result(2);
        const Tensor &grad = grads[0], &x = a.get(), &y = b.get();
        if (needs[0]) result[0] = matmul(grad, y.transpose(-1, -2));
        if (needs[1] && y.ndim() == 2) {  // one matrix for the whole batch: one product
          result[1] = matmul(as_matrix(x).transpose(0, 1), as_matrix(grad));
        } else if (needs[1]) {
          result[1] = matmul(x.transpose(-1, -2), grad);
        }
        return result;
      });
}

Variable linear(const Variable& x, const Variable& weight, const Variable& bias,
                MatmulPrecision precision) {
  return linear_activation(x, weight, bias, Activation::none, precision);
}

Variable linear_activation(const Variable& x, const Variable& weight, const Variable& bias,
                           Activation activation, MatmulPrecision precision) {
  const bool is_linear = activation == Activation::none;
  const std::string_view op = is_linear ? "linear" : "linear_activation";
  const Tensor left = product_operand(x.data(), precision),
               right = product_operand(weight.data(), precision);
  const LinearActivation y =
      linear_activation(left, right, bias.defined() ? bias.data() : Tensor(), activation);
  const Saved pre = is_linear ? Saved() : Saved(op, y.pre),
              out = is_linear ? Saved() : Saved(op, y.out);
  return record(op, {x, weight, bias}, is_linear ? y.pre : y.out,
                [=, x = Saved(op, left), weight = Saved(op, right)](const Grads& grads,
                                                                    const NeedsGrad& needs) {
                  const Tensor grad_pre =
                      is_linear
                          ? grads[0]
                          : unary_backward({unary_of(activation)}, pre.get(), out.get(), grads[0]);
                  return linear_backward(x.get(), weight.get(), grad_pre, needs);
                });
}

}  // namespace mobius
