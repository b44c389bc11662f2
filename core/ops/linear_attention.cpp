#include "core/ops/linear_attention.h"

#include "core/ops/checks.h"

namespace mobius {
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
  if (!in.normalized && in.eps != 0)
    throw Error("linear_attention: an eps of {} has no effect without normalisation", in.eps);
  in.q = with_dense_rows(in.q);
  in.k = with_dense_rows(in.k);
  in.v = with_dense_rows(in.v);
  return in;
}

}  // namespace

LinearAttentionResult linear_attention(const LinearAttentionInputs& inputs) {
  const LinearAttentionInputs in = checked(inputs);
  const Shape per_query{in.q.size(0), in.q.size(1), in.q.size(2)};
  LinearAttentionResult result{empty_heads(in.q, in.v.size(3)), {}};
  if (in.normalized) result.denominator = Tensor::empty(per_query, in.q.dtype(), in.q.device());
  kernels(in.q, &Backend::linear_attention)->linear_attention(in, result.out, result.denominator);
  return result;
}

LinearAttentionGrads linear_attention_backward(const LinearAttentionInputs& inputs,
                                               const LinearAttentionResult& result,
                                               const Tensor& grad_out) {
  const LinearAttentionInputs in = checked(inputs);
  constexpr std::string_view op = "linear_attention_backward";
  const Shape per_query{in.q.size(0), in.q.size(1), in.q.size(2)};
  const Shape out{in.q.size(0), in.q.size(1), in.q.size(2), in.v.size(3)};
  if (in.normalized) {
    require_like(op, "out", result.out, in.q, out);
    require_like(op, "denominator", result.denominator, in.q, per_query);
  }
  require_like(op, "grad_out", grad_out, in.q, out);
  LinearAttentionGrads grads{in.q.empty_like(), in.k.empty_like(), in.v.empty_like()};
  kernels(in.q, &Backend::linear_attention)
      ->linear_attention_backward(in, result.out, result.denominator, with_dense_rows(grad_out),
                                  grads);
  return grads;
}

}  // namespace mobius
