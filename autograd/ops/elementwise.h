// Functions of one, two and three elements at a time, and SwiGLU. Operands broadcast.
#pragma once

#include "autograd/variable.h"
#include "core/ops/elementwise.h"

namespace mobius {

Variable add(const Variable& a, const Variable& b);
Variable sub(const Variable& a, const Variable& b);
Variable mul(const Variable& a, const Variable& b);
Variable div(const Variable& a, const Variable& b);
/// Where both are equal the gradient goes to a.
Variable maximum(const Variable& a, const Variable& b);
Variable minimum(const Variable& a, const Variable& b);
inline Variable operator+(const Variable& a, const Variable& b) { return add(a, b); }
inline Variable operator-(const Variable& a, const Variable& b) { return sub(a, b); }
inline Variable operator*(const Variable& a, const Variable& b) { return mul(a, b); }
inline Variable operator/(const Variable& a, const Variable& b) { return div(a, b); }

Variable unary(const Unary& f, const Variable& x);
/// silu(gate) up, of equal shapes.
Variable swiglu(const Variable& gate, const Variable& up);
Variable affine(const Variable& x, double a, double b);  // a x + b
inline Variable neg(const Variable& x) { return affine(x, -1, 0); }
inline Variable scale(const Variable& x, double factor) { return affine(x, factor, 0); }
inline Variable exp(const Variable& x) { return unary({UnaryOp::exp}, x); }
inline Variable log(const Variable& x) { return unary({UnaryOp::log}, x); }
inline Variable log1p(const Variable& x) { return unary({UnaryOp::log1p}, x); }
inline Variable sqrt(const Variable& x) { return unary({UnaryOp::sqrt}, x); }
inline Variable rsqrt(const Variable& x) { return unary({UnaryOp::rsqrt}, x); }
inline Variable reciprocal(const Variable& x) { return unary({UnaryOp::reciprocal}, x); }
inline Variable square(const Variable& x) { return unary({UnaryOp::square}, x); }
inline Variable power(const Variable& x, double exponent) {
  return unary({UnaryOp::power, exponent}, x);
}
inline Variable sin(const Variable& x) { return unary({UnaryOp::sin}, x); }
inline Variable cos(const Variable& x) { return unary({UnaryOp::cos}, x); }
inline Variable tanh(const Variable& x) { return unary({UnaryOp::tanh}, x); }
inline Variable sigmoid(const Variable& x) { return unary({UnaryOp::sigmoid}, x); }
inline Variable softplus(const Variable& x) { return unary({UnaryOp::softplus}, x); }
inline Variable relu(const Variable& x) { return unary({UnaryOp::relu}, x); }
inline Variable silu(const Variable& x) { return unary({UnaryOp::silu}, x); }
inline Variable gelu(const Variable& x) { return unary({UnaryOp::gelu}, x); }
inline Variable gelu_tanh(const Variable& x) { return unary({UnaryOp::gelu_tanh}, x); }
inline Variable elu(const Variable& x) { return unary({UnaryOp::elu}, x); }
inline Variable elu_plus_one(const Variable& x) { return unary({UnaryOp::elu_plus_one}, x); }
/// min(max(x, low), high); infinities leave a side open. Gradient 0 where it acts.
inline Variable clamp(const Variable& x, double low, double high) {
  return unary({UnaryOp::clamp, low, high}, x);
}
/// condition ? a : b; condition is u8 and has no gradient.
Variable where(const Tensor& condition, const Variable& a, const Variable& b);

}  // namespace mobius
