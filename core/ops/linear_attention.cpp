#include "core/ops/linear_attention.h"

#include <algorithm>

#include "core/ops/checks.h"

namespace mobius {
namespace {

void require_meaning(const LinearAttentionInputs& in) {
  constexpr std::string_view op = "linear_attention";
  require_heads(op, in.q, in.k, in.v);
  if (in.causal && in.normalized && in.k.size(2) < in.q.size(2)) {
    throw ShapeError("{}: q {} and k {}: causal needs at least as many keys as queries", op,
                     to_string(in.q.shape()), to_string(in.k.shape()));
  }
  if (!(in.eps >= 0)) throw Error("{}: expected an eps of at least 0, got {}", op, in.eps);
  if (!in.normalized && in.eps != 0)
    throw Error("{}: an eps of {} has no effect without normalisation", op, in.eps);
  if (in.normalized && (in.lag != 0 || in.initial.defined()))
    throw Error("{}: a lag and initial sums have no meaning with normalisation", op);
  if (in.lag < 0 || (in.lag > 0 && !in.causal))
    throw Error("{}: expected a lag of at least 0, and 0 unless causal, got {}", op, in.lag);
  require_optional(op, "initial", in.initial, in.q,
                   {in.q.size(0), in.q.size(1), in.q.size(2), in.v.size(3)});
}

LinearAttentionInputs checked(LinearAttentionInputs in) {
  require_meaning(in);
  in.q = with_dense_rows(in.q);
  in.k = with_dense_rows(in.k);
  in.v = with_dense_rows(in.v);
  if (in.initial.defined()) in.initial = with_dense_rows(in.initial);
  return in;
}

/// The queries that see keys, which are the last ones, and the keys that some query sees, which are
/// the first ones.
struct Seeing {
  std::int64_t first_query, n_keys;

  explicit Seeing(const LinearAttentionInputs& in)
      : n_keys(std::max<std::int64_t>(in.k.size(2) - in.lag, 0)) {
    first_query = in.causal ? std::max<std::int64_t>(in.q.size(2) - n_keys, 0) : 0;
  }
  Tensor queries(const Tensor& x) const { return x.slice(2, first_query, x.size(2)); }
  Tensor other_queries(const Tensor& x) const { return x.slice(2, 0, first_query); }
  Tensor keys(const Tensor& x) const { return x.slice(2, 0, n_keys); }
  Tensor other_keys(const Tensor& x) const { return x.slice(2, n_keys, x.size(2)); }

  LinearAttentionInputs part(LinearAttentionInputs in) const {
    in.q = queries(in.q);
    in.k = keys(in.k);
    in.v = keys(in.v);
    if (in.initial.defined()) in.initial = queries(in.initial);
    in.lag = 0;
    return in;
  }
};

}  // namespace

LinearAttentionResult linear_attention(const LinearAttentionInputs& inputs) {
  const LinearAttentionInputs in = checked(inputs);
  const Shape per_query{in.q.size(0), in.q.size(1), in.q.size(2)};
  LinearAttentionResult result{empty_heads(in.q, in.v.size(3)), {}};
  if (in.normalized) result.denominator = Tensor::empty(per_query, in.q.dtype(), in.q.device());
  const Seeing seeing(in);
  Tensor others = seeing.other_queries(result.out);
  if (in.initial.defined())
    others.copy_from(seeing.other_queries(in.initial));
  else
    others.fill(0);
  kernels(in.q, &Backend::linear_attention)
      ->linear_attention(seeing.part(in), seeing.queries(result.out), result.denominator);
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
  const Seeing seeing(in);
  seeing.other_queries(grads.q).fill(0);
  seeing.other_keys(grads.k).fill(0);
  seeing.other_keys(grads.v).fill(0);
  const LinearAttentionGrads seen{seeing.queries(grads.q), seeing.keys(grads.k),
                                  seeing.keys(grads.v)};
  kernels(in.q, &Backend::linear_attention)
      ->linear_attention_backward(seeing.part(in), result.out, result.denominator,
                                  seeing.queries(with_dense_rows(grad_out)), seen);
  return grads;
}

}  // namespace mobius
