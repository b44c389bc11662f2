#include "core/ops/attention.h"

#include <cmath>

#include "core/ops/checks.h"

namespace mobius {
namespace {

// Shapes and types checked; rows made dense.
AttentionInputs checked(const AttentionSpec& spec, AttentionInputs in) {
  constexpr std::string_view op = "attention";
  require_heads(op, in.q, in.k, in.v);
  require_numbers_fit(spec, in);
  const std::int64_t b = in.q.size(0), h = in.q.size(1), n_q = in.q.size(2), n_k = in.k.size(2);
  require_mask_fits(op, spec.mask, {b, h, n_q, n_k}, in.q.device());
  require_optional(op, "key_bias", in.key_bias, in.q, {b, in.k.size(1), n_k});
  require_optional(op, "distance_bias", in.distance_bias, in.q, {h, n_q + n_k - 1});
  require_optional(op, "sharpness", in.sharpness, in.q, {b, h, n_q});
  require_optional(op, "log_factor", in.log_factor, in.q, {b, h, n_q});
  require_optional(op, "threshold", spec.threshold.value, in.q, {b, h, n_q});
  if (spec.threshold.value.defined()) {
    const Tensor& last_key = spec.threshold.last_key;
    require_shape(op, "last key of the threshold", last_key, {b, h, n_q});
    require_dtype(op, "last key of the threshold", last_key, in.q, DType::i64);
  }
  if (spec.score == ScoreMap::dot && spec.normalizer == WeightNormalizer::none) {
    throw Error("attention: the dot score map has no form without normalisation");
  }
  in.q = with_dense_rows(in.q);
  in.k = with_dense_rows(in.k);
  in.v = with_dense_rows(in.v);
  for (Tensor* x : {&in.key_bias, &in.distance_bias, &in.sharpness, &in.log_factor}) {
    *x = contiguous_if_defined(*x);
  }
  return in;
}

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
  kernels(in.q, &Backend::attention)->attention_threshold(spec, in, topk, threshold);
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
  kernels(in.q, &Backend::attention)->attention(spec, in, result.out, result.lse);
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
  kernels(in.q, &Backend::attention)
      ->attention_backward(spec, in, result.out, result.lse, with_dense_rows(grad_out), grads);
  return grads;
}

}  // namespace mobius
