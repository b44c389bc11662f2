// The operations of core/ops.h around attention: masks, softmax, the fused kernels.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops.h"
#include "core/ops_checks.h"
#include "core/score_maps/score_maps.h"

namespace mobius {

// ---- softmax

namespace {

// `scores` with the selected keys of a query in the place of all keys.
Shape selection_shape(const AttentionMask& mask, Shape scores) {
  if (mask.selected.ndim() > 0) scores.back() = mask.selected.size(-1);
  return scores;
}

void require_mask_fits(std::string_view op, const AttentionMask& mask, const Shape& scores) {
  if (mask.window < 0 || mask.stride < 0 || mask.n_global < 0) {
    throw Error("{}: a mask of window {}, stride {} and n_global {}: none may be negative", op,
                mask.window, mask.stride, mask.n_global);
  }
  if (mask.window == 0 && (mask.stride > 0 || mask.n_global > 0)) {
    throw Error("{}: a stride or n_global has no effect on a mask without a window", op);
  }
  const auto require = [&](const char* what, const Tensor& x, DType dtype, const Shape& expected) {
    if (!x.defined()) return;
    if (x.dtype() != dtype) throw_unsupported_dtype(op, x.dtype());
    if (broadcast_shapes(op, x.shape(), expected) != expected) {
      throw ShapeError("{}: {} {} does not fit scores {}", op, what, to_string(x.shape()),
                       to_string(scores));
    }
  };
  require("mask", mask.mask, DType::u8, scores);
  require("selected keys", mask.selected, DType::i32, selection_shape(mask, scores));
}

}  // namespace

Tensor masked_softmax(const Tensor& scores, double scale, const AttentionMask& mask) {
  if (scores.ndim() < 2) {
    throw ShapeError("masked_softmax: scores {}: expected [..., n_q, n_k]",
                     to_string(scores.shape()));
  }
  require_mask_fits("masked_softmax", mask, scores.shape());
  AttentionMask explicit_mask = mask;
  if (mask.window > 0 || mask.selected.defined()) {
    explicit_mask = {.mask =
                         materialize_mask(mask, scores.size(-2), scores.size(-1), scores.device())};
  }
  const Tensor dense = scores.contiguous();
  Tensor weights = dense.empty_like();
  backend_of(scores).masked_softmax(dense, scale, explicit_mask, weights);
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
  if (mask.selected.ndim() > 0) {
    Shape selected = mask.selected.shape();
    selected.back() = n_k;
    shape = broadcast_shapes("mask", selected, shape);
  }
  require_mask_fits("mask", mask, shape);
  if (shape.back() != n_k || shape[shape.size() - 2] != n_q) {
    throw ShapeError("mask: {} does not fit {} queries and {} keys", to_string(mask.mask.shape()),
                     n_q, n_k);
  }
  Tensor allowed = Tensor::empty(shape, DType::u8, device);
  backend_for(device).materialize_mask(mask, allowed);
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
  const auto shape_of = [&](NumberOf what) -> Shape {
    if (what == NumberOf::query) return {b, h, n_q};
    return what == NumberOf::key ? Shape{b, in.k.size(1), n_k} : Shape{h, n_q + n_k - 1};
  };
  scores::for_each_number(
      [&](const NumberKind& number, Tensor& x) {
        if (!x.defined()) return;
        require_like(op, number.name, x, in.q, shape_of(number.of));
        x = x.contiguous();
      },
      in);
  scores::with_score(spec, [](auto map, auto is_softmax) {
    if (!is_softmax && !map.has_weight)
      throw Error("attention: the {} score map has no form without normalisation", map.name);
  });
  in.q = with_dense_rows(in.q);
  in.k = with_dense_rows(in.k);
  in.v = with_dense_rows(in.v);
  return in;
}

}  // namespace

void require_numbers_fit(const AttentionSpec& spec, const AttentionOperands<bool>& is_given) {
  scores::with_score(spec, [&](auto map, auto) {
    scores::for_each_number(
        [&](const NumberKind& number, bool given, const NumberUse& use) {
          if (given && !use.is_taken)
            throw Error("attention: the {} score map takes no {}", map.name, number.name);
          if (!given && use.is_required)
            throw ShapeError("attention: the {} score map needs {}", map.name, number.name);
        },
        is_given, map.uses);
  });
  if (!(spec.exponent > 0 && std::isfinite(spec.exponent)))
    throw Error("attention: expected an exponent above 0, got {}", spec.exponent);
  if (!std::isfinite(spec.scale))
    throw Error("attention: expected a finite scale, got {}", spec.scale);
  if (std::isnan(spec.log_cap)) throw Error("attention: expected a log_cap, got a NaN");
  if (!(spec.dropout >= 0 && spec.dropout < 1))
    throw Error("attention: a dropout of {} is not in [0, 1)", spec.dropout);
}

Tensor attention_topk(const AttentionSpec& spec, const AttentionInputs& inputs, std::int64_t topk) {
  if (topk < 1) throw Error("attention_topk: expected at least 1 key, got {}", topk);
  const AttentionInputs in = checked(spec, inputs);
  const std::int64_t n_k = in.k.size(2);
  if (n_k > std::numeric_limits<std::int32_t>::max())
    throw Error("attention_topk: {} keys are more than an i32 can count", n_k);
  Tensor keys = Tensor::empty({in.q.size(0), in.q.size(1), in.q.size(2), std::min(topk, n_k)},
                              DType::i32, in.q.device());
  backend_of(in.q).attention_topk(spec, in, keys);
  return keys;
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
  const AttentionGrads grads =
      map_operands(in, [](const Tensor& x) { return x.defined() ? x.empty_like() : Tensor(); });
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
