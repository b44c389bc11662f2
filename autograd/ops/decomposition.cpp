#include "autograd/ops.h"

namespace mobius {

Variable inverse_cholesky(const Variable& a) {
  constexpr std::string_view op = "inverse_cholesky";
  const Tensor w = inverse_cholesky(a.data());
  return record(op, a, w, [w = Saved(op, w)](const Tensor& grad) {
    return inverse_cholesky_backward(w.get(), grad);
  });
}

}  // namespace mobius
