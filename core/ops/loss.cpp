#include "core/ops/loss.h"

#include "core/ops/checks.h"
#include "core/ops/rows.h"

namespace mobius {

CrossEntropyResult cross_entropy(Tensor&& logits, const Tensor& labels) {
  constexpr std::string_view op = "cross_entropy";
  require_real(op, logits);
  if (logits.ndim() != 2) {
    throw ShapeError("cross_entropy: logits {}: expected [R, V]", to_string(logits.shape()));
  }
  require_index(op, labels, logits);
  require_shape(op, "labels", labels, {logits.size(0)});
  require_indices_in_range(op, labels, logits.size(1), &ignored_label);
  CrossEntropyResult result{Tensor::empty(labels.shape(), DType::f64, logits.device()),
                            Tensor::empty(labels.shape(), DType::i64, logits.device()),
                            logits.contiguous()};
  kernels(logits, &Backend::loss)
      ->cross_entropy(result.grad_logits, labels.contiguous(), result.losses, result.predictions);
  result.grad_logits.bump_version();
  return result;
}

}  // namespace mobius
