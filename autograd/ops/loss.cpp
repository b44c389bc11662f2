#include "autograd/ops/loss.h"

#include <algorithm>
#include <utility>

#include "core/ops/checks.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/rows.h"

namespace mobius {
namespace {

// Logits held at once by linear_cross_entropy, in elements: they stay near the last-level cache,
// and the products stay large.
constexpr std::int64_t max_chunk_logits = std::int64_t{1} << 22;

// Positions of the labels that are not ignored, and those labels.
struct Labelled {
  Tensor positions;
  Tensor labels;
};

// Here, where positions are still those of the caller, a label outside [0, vocab) is refused.
Labelled find_labelled(std::string_view op, const Tensor& labels, std::int64_t vocab) {
  const std::vector<std::int64_t> values = labels.to_vector<std::int64_t>();
  std::vector<std::int64_t> positions, kept;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == ignored_label) continue;
    if (values[i] < 0 || values[i] >= vocab) {
      throw Error("{}: label {} at position {} is outside [0, {})", op, values[i], i, vocab);
    }
    positions.push_back(static_cast<std::int64_t>(i));
    kept.push_back(values[i]);
  }
  const Shape shape{static_cast<std::int64_t>(kept.size())};
  return {Tensor::from(positions, shape, labels.device()),
          Tensor::from(kept, shape, labels.device())};
}

double divisor(double normalizer, std::int64_t n_labels) {
  return normalizer > 0 ? normalizer : static_cast<double>(std::max<std::int64_t>(n_labels, 1));
}

Tensor scalar(double value, const Tensor& like) {
  return Tensor::full({}, value, like.dtype(), like.device());
}

// The gradient is known at the end of the forward pass; only its factor comes with backward().
Tensor times(const Tensor& gradient, const Tensor& grad_loss) {
  const double factor = grad_loss.item();
  return factor == 1 ? gradient : scale(gradient, factor);
}

}  // namespace

LossResult cross_entropy(const Variable& logits, const Tensor& labels, double normalizer) {
  if (logits.ndim() != 2 || labels.shape() != Shape{logits.size(0)}) {
    throw ShapeError("cross_entropy: logits {} and labels {}: expected [R, V] and [R]",
                     to_string(logits.shape()), to_string(labels.shape()));
  }
  require_index("cross_entropy", labels, logits.data());
  const Labelled labelled = find_labelled("cross_entropy", labels, logits.size(1));
  const double count = divisor(normalizer, labelled.labels.numel());
  CrossEntropyResult result =
      cross_entropy(gather_rows(logits.data(), labelled.positions), labelled.labels);
  const double loss_sum = sum(result.losses).item();
  Variable loss =
      record("cross_entropy", {logits}, scalar(loss_sum / count, logits.data()),
             [grad = Saved("cross_entropy", result.grad_logits), positions = labelled.positions,
              count, n_rows = logits.size(0)](const std::vector<Tensor>& grads, const NeedsGrad&) {
               const Tensor grad_rows = scale(grad.get(), grads[0].item() / count);
               return std::vector<Tensor>{scatter_add_rows(grad_rows, positions, n_rows)};
             });
  return {std::move(loss), loss_sum, labelled.positions, std::move(result.predictions)};
}

LossResult linear_cross_entropy(const Variable& hidden, const Variable& weight,
                                const Tensor& labels, double normalizer,
                                ProductPrecision precision) {
  constexpr std::string_view op = "linear_cross_entropy";
  if (weight.ndim() != 2 || hidden.ndim() == 0 || hidden.size(-1) != weight.size(1) ||
      hidden.numel() / std::max<std::int64_t>(hidden.size(-1), 1) != labels.numel()) {
    throw ShapeError("{}: hidden {}, weight {}, labels {}: expected [..., D], [V, D], [...]", op,
                     to_string(hidden.shape()), to_string(weight.shape()),
                     to_string(labels.shape()));
  }
  require_index(op, labels, hidden.data());
  const Labelled labelled = find_labelled(op, labels, weight.size(0));
  const std::int64_t n_rows = labelled.labels.numel();
  const double count = divisor(normalizer, n_rows);
  const bool wants_grad = grad_enabled() && (hidden.requires_grad() || weight.requires_grad());
  const Tensor w = product_operand(weight.data(), precision);
  const Tensor labelled_rows =
      gather_rows(hidden.data().reshape({-1, w.size(1)}), labelled.positions);
  const Tensor rows = product_operand(labelled_rows, precision);

  Tensor predictions = Tensor::empty({n_rows}, DType::i64, rows.device());
  Tensor grad_rows, grad_weight;
  if (wants_grad) {
    grad_rows = labelled_rows.zeros_like();
    grad_weight = weight.data().zeros_like();
  }
  double loss_sum = 0;
  const std::int64_t chunk =
      std::max<std::int64_t>(max_chunk_logits / std::max<std::int64_t>(w.size(0), 1), 16);
  for (std::int64_t begin = 0; begin < n_rows; begin += chunk) {
    const std::int64_t end = std::min(begin + chunk, n_rows);
    const Tensor x = rows.slice(0, begin, end);
    const CrossEntropyResult result =
        cross_entropy(linear(x, w), labelled.labels.slice(0, begin, end));
    loss_sum += sum(result.losses).item();
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

  Variable loss = record(
      op, {hidden, weight}, scalar(loss_sum / count, hidden.data()),
      [grad_rows, grad_weight, positions = labelled.positions, shape = hidden.shape()](
          const std::vector<Tensor>& grads, const NeedsGrad& needs) {
        std::vector<Tensor> result(2);
        if (needs[0]) {
          const std::int64_t n = numel(shape) / std::max<std::int64_t>(shape.back(), 1);
          result[0] = scatter_add_rows(times(grad_rows, grads[0]), positions, n).reshape(shape);
        }
        if (needs[1]) result[1] = times(grad_weight, grads[0]);
        return result;
      });
  return {std::move(loss), loss_sum, labelled.positions, std::move(predictions)};
}

}  // namespace mobius
