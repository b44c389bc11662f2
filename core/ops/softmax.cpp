#include "core/ops/softmax.h"

#include "core/ops/checks.h"

namespace mobius {

Tensor masked_softmax(const Tensor& scores, double scale, const AttentionMask& mask) {
  constexpr std::string_view op = "masked_softmax";
  require_real(op, scores);
  if (scores.ndim() < 2) {
    throw ShapeError("masked_softmax: scores {}: expected [..., n_q, n_k]",
                     to_string(scores.shape()));
  }
  require_mask_fits(op, mask, scores.shape(), scores.device());
  AttentionMask plain = mask;
  if (mask.window > 0 || mask.selected.defined())
    plain = {.mask = materialize_mask(mask, scores.size(-2), scores.size(-1), scores.device())};
  const Tensor dense = scores.contiguous();
  Tensor weights = dense.empty_like();
  kernels(scores, &Backend::softmax)->masked_softmax(dense, scale, plain, weights);
  return weights;
}

Tensor softmax_backward(const Tensor& weights, const Tensor& grad, double scale) {
  require_real("softmax_backward", weights);
  require_like("softmax_backward", "grad", grad, weights, weights.shape());
  Tensor grad_scores = weights.empty_like();
  kernels(weights, &Backend::softmax)
      ->softmax_backward(weights.contiguous(), grad.contiguous(), scale, grad_scores);
  return grad_scores;
}

Tensor materialize_mask(const AttentionMask& mask, std::int64_t n_q, std::int64_t n_k,
                        Device device) {
  Shape shape{n_q, n_k};
  if (mask.mask.defined()) shape = broadcast_shapes("mask", mask.mask.shape(), shape);
  if (mask.selected.defined())
    shape = broadcast_shapes("mask", with_last(mask.selected.shape(), n_k), shape);
  require_mask_fits("mask", mask, shape, device);
  if (shape.back() != n_k || shape[shape.size() - 2] != n_q) {
    throw ShapeError("mask: {} does not fit {} queries and {} keys", to_string(mask.mask.shape()),
                     n_q, n_k);
  }
  Tensor allowed = Tensor::empty(shape, DType::u8, device);
  kernels(device, &Backend::softmax)->materialize_mask(mask, allowed);
  return allowed;
}

}  // namespace mobius
