#include "core/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

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
  const auto shape_of = [&](NumberOf what) -> Shape {
    if (what == NumberOf::query) return {b, h, n_q};
    return what == NumberOf::key ? Shape{b, in.k.size(1), n_k} : Shape{h, n_q + n_k - 1};
  };
  scores::for_each_number(
      [&](const NumberKind& number, Tensor& x) {
        require_optional(op, number.name, x, in.q, shape_of(number.of));
        x = contiguous_if_defined(x);
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
  const Tensor keys = Tensor::empty({in.q.size(0), in.q.size(1), in.q.size(2), std::min(topk, n_k)},
                                    DType::i32, in.q.device());
  kernels(in.q, &Backend::attention)->attention_topk(spec, in, keys);
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
  const AttentionGrads grads = map_operands(in, empty_if_defined);
  kernels(in.q, &Backend::attention)
      ->attention_backward(spec, in, result.out, result.lse, with_dense_rows(grad_out), grads);
  return grads;
}

}  // namespace mobius
