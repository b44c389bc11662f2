#include "core/ops/optimizer.h"

#include "core/ops/checks.h"

namespace mobius {
namespace {

// As the parameter, and dense: it is read and written in place.
void require_in_place(std::string_view op, std::string_view what, const Tensor& x,
                      const Tensor& parameter) {
  require_like(op, what, x, parameter, parameter.shape());
  if (!x.is_contiguous()) throw ShapeError("{}: {} is not dense", op, what);
}

}  // namespace

void adamw(const AdamWStep& s, const Tensor& grad, const Tensor& parameter, const Tensor& m,
           const Tensor& v) {
  require_real("adamw", parameter);
  require_in_place("adamw", "the parameter", parameter, parameter);
  require_in_place("adamw", "the gradient", grad, parameter);
  require_in_place("adamw", "the first moment", m, parameter);
  require_in_place("adamw", "the second moment", v, parameter);
  kernels(parameter, &Backend::optimizer)->adamw(s, grad, parameter, m, v);
}

void sgd(const SgdStep& s, const Tensor& grad, const Tensor& parameter, const Tensor& momentum) {
  require_real("sgd", parameter);
  require_in_place("sgd", "the parameter", parameter, parameter);
  require_in_place("sgd", "the gradient", grad, parameter);
  if (s.momentum != 0) require_in_place("sgd", "the momentum", momentum, parameter);
  kernels(parameter, &Backend::optimizer)->sgd(s, grad, parameter, momentum);
}

}  // namespace mobius
