// The operations of core/ops.h around attention: masks, softmax, the fused kernels.
#include <cmath>

#include "core/ops.h"
#include "core/ops_checks.h"

namespace mobius {

// ---- softmax

namespace {

void require_mask_fits(std::string_view op, const AttentionMask& mask, const Shape& scores) {
  if (mask.window < 0 || mask.stride < 0 || mask.n_global < 0) {
    throw Error("{}: a mask of window {}, stride {} and n_global {}: none may be negative", op,
                mask.window, mask.stride, mask.n_global);
  }
  if (mask.window == 0 && (mask.stride > 0 || mask.n_global > 0)) {
    throw Error("{}: a stride or n_global has no effect on a mask without a window", op);
  }
  if (!mask.mask.defined()) return;
  if (mask.mask.dtype() != DType::u8) throw_unsupported_dtype(op, mask.mask.dtype());
  if (broadcast_shapes(op, mask.mask.shape(), scores) != scores) {
    throw ShapeError("{}: mask {} does not fit scores {}", op, to_string(mask.mask.shape()),
                     to_string(scores));
  }
}

}  // namespace

Tensor masked_softmax(const Tensor& scores, double scale, const AttentionMask& mask) {
  if (scores.ndim() < 2) {
    throw ShapeError("masked_softmax: scores {}: expected [..., n_q, n_k]",
                     to_string(scores.shape()));
  }
  require_mask_fits("masked_softmax", mask, scores.shape());
  AttentionMask expanded = mask;
  if (mask.window > 0) {
    expanded = {.mask = materialize_mask(mask, scores.size(-2), scores.size(-1), scores.device())};
  }
  if (expanded.mask.defined()) expanded.mask = expanded.mask.expand(scores.shape());
  const Tensor dense = scores.contiguous();
  Tensor weights = dense.empty_like();
  backend_of(scores).masked_softmax(dense, scale, expanded, weights);
  return weights;
}

Tensor softmax_backward(const Tensor& weights, const Tensor& grad, double scale) {
  require_like("softmax_backward", "grad", grad, weights, weights.shape());
  Tensor grad_scores = weights.empty_like();
  backend_of(weights).softmax_backward(weights.contiguous(), grad.contiguous(), scale, grad_scores);
  return grad_scores;
}

Tensor materialize_mask(const AttentionMask& mask, std::int64_t n_q, std::int64_t n_k,
                        Device device) {
  Shape shape{n_q, n_k};
  if (mask.mask.defined()) shape = broadcast_shapes("mask", mask.mask.shape(), shape);
  require_mask_fits("mask", mask, shape);
  if (shape.back() != n_k || shape[shape.size() - 2] != n_q) {
    throw ShapeError("mask: {} does not fit {} queries and {} keys", to_string(mask.mask.shape()),
                     n_q, n_k);
  }
  AttentionMask expanded = mask;
  if (mask.mask.defined()) expanded.mask = mask.mask.expand(shape);
  Tensor allowed = Tensor::empty(shape, DType::u8, device);
  backend_for(device).materialize_mask(expanded, allowed);
  return allowed;
}

// ---- fused attention

namespace {

void require_heads(std::string_view op, const Tensor& q, const Tensor& k, const Tensor& v) {
  require_same_kind(op, q, k);
  require_same_kind(op, q, v);
  const bool fits = q.ndim() == 4 && k.ndim() == 4 && v.ndim() == 4 && q.size(0) == k.size(0) &&
                    q.size(3) == k.size(3) && k.size(1) > 0 && q.size(1) % k.size(1) == 0;
  const Shape kv = fits ? Shape{k.size(0), k.size(1), k.size(2), v.size(3)} : Shape{};
  if (!fits || v.shape() != kv) {
    throw ShapeError(
        "{}: q {}, k {}, v {}: expected [B, H, Nq, D], [B, G, Nk, D], [B, G, Nk, Dv], G dividing H",
        op, to_string(q.shape()), to_string(k.shape()), to_string(v.shape()));
  }
}

// [B, H, Nq, Dv] in the memory order [B, Nq, H, Dv].
Tensor empty_heads(const Tensor& q, std::int64_t dv) {
  return Tensor::empty({q.size(0), q.size(2), q.size(1), dv}, q.dtype(), q.device())
      .transpose(1, 2);
}

// Shapes and types checked; rows made dense.
AttentionInputs checked(const AttentionSpec& spec, AttentionInputs in) {
  constexpr std::string_view op = "attention";
  require_heads(op, in.q, in.k, in.v);
  require_numbers_fit(spec, in);
  const std::int64_t b = in.q.size(0), h = in.q.size(1), n_q = in.q.size(2), n_k = in.k.size(2);
  require_mask_fits(op, spec.mask, {b, h, n_q, n_k});
  require_optional(op, "key_bias", in.key_bias, in.q, {b, in.k.size(1), n_k});
  require_optional(op, "distance_bias", in.distance_bias, in.q, {h, n_q + n_k - 1});
  require_optional(op, "sharpness", in.sharpness, in.q, {b, h, n_q});
  require_optional(op, "log_factor", in.log_factor, in.q, {b, h, n_q});
  require_optional(op, "threshold", spec.threshold.value, in.q, {b, h, n_q});
  if (spec.threshold.value.defined()) {
    require_shape(op, "last key of the threshold", spec.threshold.last_key, {b, h, n_q});
    if (spec.threshold.last_key.dtype() != DType::i64)
      throw_unsupported_dtype("attention: last key of the threshold",
                              spec.threshold.last_key.dtype());
  }
  if (spec.score == ScoreMap::dot && spec.normalizer == WeightNormalizer::none) {
    throw Error("attention: the dot score map has no form without normalisation");
  }
  in.q = with_dense_rows(in.q);
  in.k = with_dense_rows(in.k);
  in.v = with_dense_rows(in.v);
  for (Tensor* x : {&in.key_bias, &in.distance_bias, &in.sharpness, &in.log_factor}) {
    if (x->defined()) *x = x->contiguous();
  }
  return in;
}

Tensor empty_if_defined(const Tensor& x) { return x.defined() ? x.empty_like() : Tensor(); }

}  // namespace

void require_numbers_fit(const AttentionSpec& spec, const AttentionInputs& in) {
  const bool is_dot = spec.score == ScoreMap::dot;
  const auto refuse = [](const char* map, const char* what) {
    throw Error("attention: the {} score map takes no {}", map, what);
  };
  if (!is_dot && in.key_bias.defined()) refuse("conformal", "key_bias");
  if (!is_dot && in.distance_bias.defined()) refuse("conformal", "distance_bias");
  if (is_dot && in.log_factor.defined()) refuse("dot", "log_factor");
  if (!is_dot && !in.sharpness.defined())
    throw ShapeError("attention: the conformal score map needs sharpness");
  if (!is_dot && !(spec.exponent > 0 && std::isfinite(spec.exponent)))
    throw Error("attention: expected an exponent above 0, got {}", spec.exponent);
  if (!std::isfinite(spec.scale))
    throw Error("attention: expected a finite scale, got {}", spec.scale);
  if (std::isnan(spec.log_cap)) throw Error("attention: expected a log_cap, got a NaN");
  if (!(spec.dropout >= 0 && spec.dropout < 1))
    throw Error("attention: a dropout of {} is not in [0, 1)", spec.dropout);
}

AttentionThreshold attention_threshold(const AttentionSpec& spec, const AttentionInputs& inputs,
                                       std::int64_t topk) {
  if (topk < 1) throw Error("attention_threshold: expected at least 1 key, got {}", topk);
  const AttentionInputs in = checked(spec, inputs);
  const Shape per_query{in.q.size(0), in.q.size(1), in.q.size(2)};
  AttentionThreshold threshold{Tensor::empty(per_query, in.q.dtype(), in.q.device()),
                               Tensor::empty(per_query, DType::i64, in.q.device())};
  backend_of(in.q).attention_threshold(spec, in, topk, threshold);
  return threshold;
}

AttentionResult attention(const AttentionSpec& spec, const AttentionInputs& inputs) {
  const AttentionInputs in = checked(spec, inputs);
  const std::int64_t b = in.q.size(0), h = in.q.size(1), n_q = in.q.size(2);
  AttentionResult result;
  result.out = empty_heads(in.q, in.v.size(3));
  if (spec.normalizer == WeightNormalizer::softmax) {
    result.lse = Tensor::empty({b, h, n_q}, in.q.dtype(), in.q.device());
  }
  backend_of(in.q).attention(spec, in, result.out, result.lse);
  return result;
}

AttentionGrads attention_backward(const AttentionSpec& spec, const AttentionInputs& inputs,
                                  const AttentionResult& result, const Tensor& grad_out) {
  const AttentionInputs in = checked(spec, inputs);
  constexpr std::string_view op = "attention_backward";
  const Shape per_query{in.q.size(0), in.q.size(1), in.q.size(2)};
  const Shape out{in.q.size(0), in.q.size(1), in.q.size(2), in.v.size(3)};
  require_like(op, "out", result.out, in.q, out);
  if (spec.normalizer == WeightNormalizer::softmax)
    require_like(op, "lse", result.lse, in.q, per_query);
  require_like(op, "grad_out", grad_out, in.q, out);
  AttentionGrads grads{in.q.empty_like(),
                       in.k.empty_like(),
                       in.v.empty_like(),
                       empty_if_defined(in.key_bias),
                       empty_if_defined(in.distance_bias),
                       empty_if_defined(in.sharpness),
                       empty_if_defined(in.log_factor)};
  backend_of(in.q).attention_backward(spec, in, result.out, result.lse, with_dense_rows(grad_out),
                                      grads);
  return grads;
}

namespace {

LinearAttentionInputs checked(LinearAttentionInputs in) {
  require_heads("linear_attention", in.q, in.k, in.v);
  if (in.causal && in.k.size(2) < in.q.size(2)) {
    throw ShapeError(
        "linear_attention: q {} and k {}: causal needs at least as many keys as queries",
        to_string(in.q.shape()), to_string(in.k.shape()));
  }
  if (!(in.eps >= 0))
    throw Error("linear_attention: expected an eps of at least 0, got {}", in.eps);
  in.q = with_dense_rows(in.q);
  in.k = with_dense_rows(in.k);
  in.v = with_dense_rows(in.v);
  return in;
}

}  // namespace

LinearAttentionResult linear_attention(const LinearAttentionInputs& inputs) {
  const LinearAttentionInputs in = checked(inputs);
  const Shape per_query{in.q.size(0), in.q.size(1), in.q.size(2)};
  LinearAttentionResult result{empty_heads(in.q, in.v.size(3)),
                               Tensor::empty(per_query, in.q.dtype(), in.q.device())};
  backend_of(in.q).linear_attention(in, result.out, result.denominator);
  return result;
}

LinearAttentionGrads linear_attention_backward(const LinearAttentionInputs& inputs,
                                               const LinearAttentionResult& result,
                                               const Tensor& grad_out) {
  const LinearAttentionInputs in = checked(inputs);
  constexpr std::string_view op = "linear_attention_backward";
  const Shape per_query{in.q.size(0), in.q.size(1), in.q.size(2)};
  const Shape out{in.q.size(0), in.q.size(1), in.q.size(2), in.v.size(3)};
  require_like(op, "out", result.out, in.q, out);
  require_like(op, "denominator", result.denominator, in.q, per_query);
  require_like(op, "grad_out", grad_out, in.q, out);
  LinearAttentionGrads grads{in.q.empty_like(), in.k.empty_like(), in.v.empty_like()};
  backend_of(in.q).linear_attention_backward(in, result.out, result.denominator,
                                             with_dense_rows(grad_out), grads);
  return grads;
}

}  // namespace mobius
