// Functions of one, two and three elements at a time, and SwiGLU.
#pragma once

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

/// Functions of one variable. `a` and `b` of Unary are their parameters.
enum class UnaryOp {
  affine,  // a x + b
  exp,
  log,
  log1p,
  sqrt,
  rsqrt,
  reciprocal,
  square,
  power,  // x^a; for x < 0 only when a is an integer
  sin,
  cos,
  tanh,
  sigmoid,
  softplus,  // log(1 + e^x), without overflow
  relu,
  silu,          // x sigmoid(x)
  gelu,          // x Phi(x), exact (erf)
  gelu_tanh,     // its tanh approximation
  elu,           // x for x > 0, else e^x - 1
  elu_plus_one,  // x + 1 for x > 0, else e^x: positive however small x is
  clamp          // min(max(x, a), b); derivative 1 strictly inside, 0 where it acts
};

struct Unary {
  UnaryOp op;
  double a = 0;
  double b = 0;
};

enum class BinaryOp { add, sub, mul, div, maximum, minimum };
enum class CompareOp { less, less_equal, equal };

/// y = f(x), of a real x.
Tensor unary(const Unary& f, const Tensor& x);
/// Gradient of y = f(x) in x.
Tensor unary_backward(const Unary& f, const Tensor& x, const Tensor& y, const Tensor& grad_y);
/// silu(gate) up, of equal shapes (Shazeer 2020).
Tensor swiglu(const Tensor& gate, const Tensor& up);
struct SwigluGrads {
  Tensor gate, up;
};
SwigluGrads swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& grad_out);
/// Operands broadcast; both of one type, which may be any.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
/// a x + b.
Tensor affine(const Tensor& x, double a, double b);
inline Tensor neg(const Tensor& x) { return affine(x, -1, 0); }
inline Tensor scale(const Tensor& x, double factor) { return affine(x, factor, 0); }
/// 0/1 in u8; operands broadcast.
Tensor compare(CompareOp op, const Tensor& a, const Tensor& b);
/// condition (u8) ? a : b; all three broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

class ElementwiseKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "elementwise";

  virtual void unary(const Unary& f, const Tensor& x, const Tensor& y) = 0;
  /// grad_x = grad_y f'(x); y = f(x) is at hand where that is cheaper.
  virtual void unary_backward(const Unary& f, const Tensor& x, const Tensor& y,
                              const Tensor& grad_y, const Tensor& grad_x) = 0;
  virtual void swiglu(const Tensor& gate, const Tensor& up, const Tensor& out) = 0;
  virtual void swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& grad_out,
                               const Tensor& grad_gate, const Tensor& grad_up) = 0;
  /// Strided, a and b already expanded to the shape of out. Integer types too.
  virtual void binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out) = 0;
  /// Strided, expanded; out is u8.
  virtual void compare(CompareOp op, const Tensor& a, const Tensor& b, const Tensor& out) = 0;
  /// Strided, expanded; condition is u8: out = condition ? a : b.
  virtual void where(const Tensor& condition, const Tensor& a, const Tensor& b,
                     const Tensor& out) = 0;
  /// Strided: out += x, of one type and shape (expanded). For Tensor::add_().
  virtual void add_in_place(const Tensor& out, const Tensor& x) = 0;
  /// Strided: out = factor * out, real. For Tensor::scale_().
  virtual void scale_in_place(const Tensor& out, double factor) = 0;
};

}  // namespace mobius
