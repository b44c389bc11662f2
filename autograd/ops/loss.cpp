#include <algorithm>

#include "autograd/ops.h"

namespace mobius {
namespace {

// The number of logits that linear_cross_entropy holds at once: few enough to stay near the
// last-level cache, and enough for large products.
constexpr std::int64_t max_chunk_logits = std::int64_t{1} << 22;

double divisor(double normalizer, const Labels& labels) {
  return normalizer > 0 ? normalizer : std::max(static_cast<double>(labels.count()), 1.0);
}

// Adds the sums over the labels from `begin` on to those of a LossResult.
void add_sums(const CrossEntropyResult& result, const Labels& labels, std::int64_t begin,
              const Tensor& sums) {
  sums.slice(0, 0, 1).add_(sum(result.losses));
  sums.slice(0, 1, 2).add_(count_correct(result.predictions, labels, begin));
}

Tensor mean_loss(const Tensor& sums, double count, DType dtype) {
  const Tensor loss_sum = sums.slice(0, 0, 1).reshape({});
  return div(loss_sum, Tensor::full({}, count, DType::f64, sums.device())).to(dtype);
}

// The forward pass computed the gradient except for its factor, which backward() gives.
Tensor times(const Tensor& gradient, const Tensor& grad_loss) {
  return is_default_root(grad_loss) ? gradient : mul(gradient, grad_loss);
}

}  // namespace

LossResult cross_entropy(const Variable& logits, const Labels& labels, double normalizer) {
  const double count = divisor(normalizer, labels);
  CrossEntropyResult result = cross_entropy(gather_rows(logits.data(), labels.positions()), labels);
  Tensor sums = Tensor::zeros({2}, DType::f64, logits.device());
  add_sums(result, labels, 0, sums);
  result.grad_logits.scale_(1 / count);
  Variable loss = record("cross_entropy", {logits}, mean_loss(sums, count, logits.dtype()),
                         [grad = Saved("cross_entropy", result.grad_logits),
                          positions = labels.positions()](const Grads& grads, const NeedsGrad&) {
                           return Grads{scatter_add_rows(times(grad.get(), grads[0]), positions)};
                         });
  return {std::move(loss), std::move(sums), std::move(result.predictions)};
}

LossResult linear_cross_entropy(const Variable& hidden, const Variable& weight,
                                const Labels& labels, double normalizer,
                                MatmulPrecision precision) {
  const std::int64_t n_positions = labels.positions().n_rows();
  if (weight.ndim() != 2 || hidden.ndim() == 0 || hidden.size(-1) != weight.size(1) ||
      hidden.numel() / std::max<std::int64_t>(hidden.size(-1), 1) != n_positions) {
    throw ShapeError(
        "linear_cross_entropy: hidden {}, weight {}, {} labels: expected [..., D], [V, D], [...]",
        to_string(hidden.shape()), to_string(weight.shape()), n_positions);
  }
  const std::int64_t n_rows = labels.count();
  const double count = divisor(normalizer, labels);
  const bool wants_grad = grad_enabled() && (hidden.requires_grad() || weight.requires_grad());
  const Tensor w = product_operand(weight.data(), precision);
  const Tensor labelled_rows =
      gather_rows(hidden.data().reshape({-1, w.size(1)}), labels.positions());
  const Tensor rows = product_operand(labelled_rows, precision);

  Tensor sums = Tensor::zeros({2}, DType::f64, rows.device());
  Tensor predictions = Tensor::empty({n_rows}, DType::i64, rows.device());
  Tensor grad_rows, grad_weight;
  if (wants_grad) {
    grad_rows = labelled_rows.zeros_like();
    grad_weight = weight.data().zeros_like();
  }
  const std::int64_t chunk =
      std::max<std::int64_t>(max_chunk_logits / std::max<std::int64_t>(w.size(0), 1), 16);
  for (std::int64_t begin = 0; begin < n_rows; begin += chunk) {
    const std::int64_t end = std::min(begin + chunk, n_rows);
    const Tensor x = rows.slice(0, begin, end);
    const CrossEntropyResult result = cross_entropy(linear(x, w), labels, begin);
    add_sums(result, labels, begin, sums);
    predictions.slice(0, begin, end).copy_from(result.predictions);
    if (!wants_grad) continue;
    Tensor grad_chunk = grad_rows.slice(0, begin, end);
    const Tensor grad_logits = product_operand(result.grad_logits, precision);
    matmul_add(grad_chunk, grad_logits, w);
    matmul_add(grad_weight, grad_logits.transpose(0, 1), x);
  }
  if (wants_grad) {
    grad_rows.scale_(1 / count);
    grad_weight.scale_(1 / count);
  }

  Variable loss =
      record("linear_cross_entropy", {hidden, weight}, mean_loss(sums, count, hidden.dtype()),
             [grad_rows, grad_weight, positions = labels.positions(), shape = hidden.shape()](
                 const Grads& grads, const NeedsGrad& needs) {
               std::vector<Tensor> result(2);
               if (needs[0]) {
                 result[0] = scatter_add_rows(times(grad_rows, grads[0]), positions).reshape(shape);
               }
               if (needs[1]) result[1] = times(grad_weight, grads[0]);
               return result;
             });
  return {std::move(loss), std::move(sums), std::move(predictions)};
}

}  // namespace mobius
