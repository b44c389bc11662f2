#include "core/ops/loss.h"

#include "core/ops/checks.h"

namespace mobius {
namespace {

void require_logits(std::string_view op, const Tensor& logits) {
  require_real(op, logits);
  if (logits.ndim() == 2) return;
  throw ShapeError("{}: logits {}: expected [R, V]", op, to_string(logits.shape()));
}

// The labels are checked.
CrossEntropyResult run_cross_entropy(const Tensor& logits, const Tensor& labels) {
  CrossEntropyResult result{Tensor::empty(labels.shape(), DType::f64, logits.device()),
                            Tensor::empty(labels.shape(), DType::i64, logits.device()),
                            logits.contiguous()};
  kernels(logits, &Backend::loss)
      ->cross_entropy(result.grad_logits, labels, result.losses, result.predictions);
  result.grad_logits.bump_version();
  return result;
}

}  // namespace

CrossEntropyResult cross_entropy(Tensor&& logits, const Tensor& labels) {
  constexpr std::string_view op = "cross_entropy";
  require_logits(op, logits);
  require_index(op, "labels", labels, logits);
  require_shape(op, "labels", labels, {logits.size(0)});
  Labels(op, labels, logits.size(1));
  return run_cross_entropy(logits, labels.contiguous());
}

CrossEntropyResult cross_entropy(Tensor&& logits, const Labels& labels, std::int64_t begin) {
  constexpr std::string_view op = "cross_entropy";
  require_logits(op, logits);
  require_same_device(op, "labels", logits, labels.values());
  if (logits.size(1) != labels.n_classes()) {
    throw ShapeError("{}: logits {} for labels of {} classes", op, to_string(logits.shape()),
                     labels.n_classes());
  }
  return run_cross_entropy(logits, labels.values().slice(0, begin, begin + logits.size(0)));
}

Tensor count_correct(const Tensor& predictions, const Labels& labels, std::int64_t begin) {
  constexpr std::string_view op = "count_correct";
  require_dtype(op, "predictions", predictions, labels.values(), DType::i64);
  const std::int64_t end = begin + predictions.numel();
  Tensor count = Tensor::empty({}, DType::f64, predictions.device());
  kernels(predictions, &Backend::loss)
      ->count_correct(predictions.contiguous(), labels.values().slice(0, begin, end),
                      labels.scored().slice(0, begin, end), count);
  return count;
}

}  // namespace mobius
