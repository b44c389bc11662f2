#include "autograd/ops.h"

namespace mobius {

Variable log_hyp2f1(double a, double b, double c, const Variable& x) {
  const LogHyp2f1Result result = log_hyp2f1(a, b, c, x.data());
  return record("log_hyp2f1", x, result.value,
                [derivative = Saved("log_hyp2f1", result.derivative)](const Tensor& grad) {
                  return mul(grad, derivative.get());
                });
}

}  // namespace mobius
