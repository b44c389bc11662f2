#include "core/ops/special.h"

#include "core/ops/checks.h"

namespace mobius {

LogHyp2f1Result log_hyp2f1(double a, double b, double c, const Tensor& x) {
  require_real("log_hyp2f1", x);
  const Tensor dense = x.contiguous();
  LogHyp2f1Result result{dense.empty_like(), dense.empty_like()};
  kernels(x, &Backend::special)->log_hyp2f1(a, b, c, dense, result.value, result.derivative);
  return result;
}

}  // namespace mobius
