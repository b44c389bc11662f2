#include "autograd/ops/special.h"

#include <utility>

#include "core/ops/elementwise.h"

namespace mobius {

Variable log_hyp2f1(double a, double b, double c, const Variable& x) {
  LogHyp2f1Result result = log_hyp2f1(a, b, c, x.data());
  return record("log_hyp2f1", {x}, std::move(result.value),
                [derivative = Saved("log_hyp2f1", result.derivative)](
                    const std::vector<Tensor>& grads, const NeedsGrad&) {
                  return std::vector<Tensor>{mul(grads[0], derivative.get())};
                });
}

}  // namespace mobius
