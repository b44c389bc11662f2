#include "autograd/ops/elementwise.h"

#include <utility>

namespace mobius {
namespace {

Tensor zero(const Tensor& like) { return Tensor::zeros({}, like.dtype(), like.device()); }

// Gradient of picking a where `picks_b` is 0 and b where it is 1.
std::vector<Tensor> route(const Tensor& picks_b, const Tensor& grad_output) {
  return {where(picks_b, zero(grad_output), grad_output),
          where(picks_b, grad_output, zero(grad_output))};
}

}  // namespace

Variable add(const Variable& a, const Variable& b) {
  return record("add", {a, b}, add(a.data(), b.data()),
                [](const std::vector<Tensor>& grads, const NeedsGrad&) {
                  return std::vector<Tensor>{grads[0], grads[0]};
                });
}

Variable sub(const Variable& a, const Variable& b) {
  return record("sub", {a, b}, sub(a.data(), b.data()),
                [](const std::vector<Tensor>& grads, const NeedsGrad& needs) {
                  return std::vector<Tensor>{grads[0], needs[1] ? neg(grads[0]) : Tensor()};
                });
}

Variable mul(const Variable& a, const Variable& b) {
  return record("mul", {a, b}, mul(a.data(), b.data()),
                [a = Saved("mul", a), b = Saved("mul", b)](const std::vector<Tensor>& grads,
                                                           const NeedsGrad& needs) {
                  return std::vector<Tensor>{needs[0] ? mul(grads[0], b.get()) : Tensor(),
                                             needs[1] ? mul(grads[0], a.get()) : Tensor()};
                });
}

Variable div(const Variable& a, const Variable& b) {
  Tensor quotient = div(a.data(), b.data());
  Saved saved("div", quotient);
  return record(
      "div", {a, b}, std::move(quotient),
      [b = Saved("div", b), saved](const std::vector<Tensor>& grads, const NeedsGrad& needs) {
        Tensor grad_a = div(grads[0], b.get());
        Tensor grad_b = needs[1] ? neg(mul(grad_a, saved.get())) : Tensor();
        return std::vector<Tensor>{std::move(grad_a), std::move(grad_b)};
      });
}

Variable maximum(const Variable& a, const Variable& b) {
  return record("maximum", {a, b}, maximum(a.data(), b.data()),
                [a = Saved("maximum", a), b = Saved("maximum", b)](const std::vector<Tensor>& grads,
                                                                   const NeedsGrad&) {
                  return route(compare(CompareOp::less, a.get(), b.get()), grads[0]);
                });
}

Variable minimum(const Variable& a, const Variable& b) {
  return record("minimum", {a, b}, minimum(a.data(), b.data()),
                [a = Saved("minimum", a), b = Saved("minimum", b)](const std::vector<Tensor>& grads,
                                                                   const NeedsGrad&) {
                  return route(compare(CompareOp::less, b.get(), a.get()), grads[0]);
                });
}

Variable unary(const Unary& f, const Variable& x) {
  Tensor y = unary(f, x.data());
  Saved saved("unary", y);
  return record(
      "unary", {x}, std::move(y),
      [f, x = Saved("unary", x), saved](const std::vector<Tensor>& grads, const NeedsGrad&) {
        return std::vector<Tensor>{unary_backward(f, x.get(), saved.get(), grads[0])};
      });
}

Variable swiglu(const Variable& gate, const Variable& up) {
  return record("swiglu", {gate, up}, swiglu(gate.data(), up.data()),
                [gate = Saved("swiglu", gate), up = Saved("swiglu", up)](
                    const std::vector<Tensor>& grads, const NeedsGrad&) {
                  SwigluGrads result = swiglu_backward(gate.get(), up.get(), grads[0]);
                  return std::vector<Tensor>{std::move(result.gate), std::move(result.up)};
                });
}

Variable affine(const Variable& x, double a, double b) {
  return record("affine", {x}, affine(x.data(), a, b),
                [a](const std::vector<Tensor>& grads, const NeedsGrad&) {
                  return std::vector<Tensor>{scale(grads[0], a)};
                });
}

Variable where(const Tensor& condition, const Variable& a, const Variable& b) {
  return record(
      "where", {a, b}, where(condition, a.data(), b.data()),
      [condition = Saved("where", condition)](const std::vector<Tensor>& grads, const NeedsGrad&) {
        std::vector<Tensor> routed = route(condition.get(), grads[0]);
        std::swap(routed[0], routed[1]);
        return routed;
      });
}

}  // namespace mobius
