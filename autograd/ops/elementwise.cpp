#include "autograd/ops.h"

namespace mobius {
namespace {

// The gradients of a choice: a if `picks_b` is 0, b if it is 1.
Grads route(const Tensor& picks_b, const Tensor& grad_output) {
  const Tensor zero = Tensor::zeros({}, grad_output.dtype(), grad_output.device());
  return {where(picks_b, zero, grad_output), where(picks_b, grad_output, zero)};
}

}  // namespace

Variable add(const Variable& a, const Variable& b) {
  return record("add", {a, b}, add(a.data(), b.data()), [](const Grads& grads, const NeedsGrad&) {
    return Grads{grads[0], grads[0]};
  });
}

Variable sub(const Variable& a, const Variable& b) {
  return record("sub", {a, b}, sub(a.data(), b.data()),
                [](const Grads& grads, const NeedsGrad& needs) {
                  return Grads{grads[0], needs[1] ? neg(grads[0]) : Tensor()};
                });
}

Variable mul(const Variable& a, const Variable& b) {
  constexpr std::string_view op = "mul";
  return record(op, {a, b}, mul(a.data(), b.data()),
                [a = Saved(op, a), b = Saved(op, b)](const Grads& grads, const NeedsGrad& needs) {
                  return Grads{needs[0] ? mul(grads[0], b.get()) : Tensor(),
                               needs[1] ? mul(grads[0], a.get()) : Tensor()};
                });
}

Variable div(const Variable& a, const Variable& b) {
  constexpr std::string_view op = "div";
  const Tensor quotient = div(a.data(), b.data());
  return record(
      op, {a, b}, quotient,
      [b = Saved(op, b), y = Saved(op, quotient)](const Grads& grads, const NeedsGrad& needs) {
        const Tensor grad_a = div(grads[0], b.get());
        return Grads{grad_a, needs[1] ? neg(mul(grad_a, y.get())) : Tensor()};
      });
}

Variable maximum(const Variable& a, const Variable& b) {
  constexpr std::string_view op = "maximum";
  return record(op, {a, b}, maximum(a.data(), b.data()),
                [a = Saved(op, a), b = Saved(op, b)](const Grads& grads, const NeedsGrad&) {
                  return route(compare(CompareOp::less, a.get(), b.get()), grads[0]);
                });
}

Variable minimum(const Variable& a, const Variable& b) {
  constexpr std::string_view op = "minimum";
  return record(op, {a, b}, minimum(a.data(), b.data()),
                [a = Saved(op, a), b = Saved(op, b)](const Grads& grads, const NeedsGrad&) {
                  return route(compare(CompareOp::less, b.get(), a.get()), grads[0]);
                });
}

Variable unary(const Unary& f, const Variable& x) {
  const Tensor y = unary(f, x.data());
  return record("unary", x, y,
                [f, x = Saved("unary", x), y = Saved("unary", y)](const Tensor& grad) {
                  return unary_backward(f, x.get(), y.get(), grad);
                });
}

Variable swiglu(const Variable& gate, const Variable& up) {
  constexpr std::string_view op = "swiglu";
  return record(op, {gate, up}, swiglu(gate.data(), up.data()),
                [gate = Saved(op, gate), up = Saved(op, up)](const Grads& grads, const NeedsGrad&) {
                  const SwigluGrads result = swiglu_backward(gate.get(), up.get(), grads[0]);
                  return Grads{result.gate, result.up};
                });
}

Variable affine(const Variable& x, double a, double b) {
  return record("affine", x, affine(x.data(), a, b),
                [a](const Tensor& grad) { return scale(grad, a); });
}

Variable where(const Tensor& condition, const Variable& a, const Variable& b) {
  return record("where", {a, b}, where(condition, a.data(), b.data()),
                [condition = Saved("where", condition)](const Grads& grads, const NeedsGrad&) {
                  Grads routed = route(condition.get(), grads[0]);
                  std::swap(routed[0], routed[1]);
                  return routed;
                });
}

}  // namespace mobius
