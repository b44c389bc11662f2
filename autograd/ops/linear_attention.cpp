#include "autograd/ops.h"

namespace mobius {

Variable linear_attention(const Variable& q, const Variable& k, const Variable& v, bool causal,
                          double eps) {
  constexpr std::string_view op = "linear_attention";
  const auto r = linear_attention({q.data(), k.data(), v.data(), causal, eps});
  return record(op, {q, k, v}, r.out,
                [q = Saved(op, q), k = Saved(op, k), v = Saved(op, v), out = Saved(op, r.out),
                 denominator = r.denominator, causal, eps](const Grads& grads, const NeedsGrad&) {
                  const auto g = linear_attention_backward({q.get(), k.get(), v.get(), causal, eps},
                                                           {out.get(), denominator}, grads[0]);
                  return Grads{g.q, g.k, g.v};
                });
}

Variable linear_attention_sums(const Variable& q, const Variable& k, const Variable& v, bool causal,
                               std::int64_t lag, const Variable& initial) {
  constexpr std::string_view op = "linear_attention_sums";
  LinearAttentionInputs in{.q = q.data(), .k = k.data(), .v = v.data(), .causal = causal};
  in.normalized = false;
  in.lag = lag;
  if (initial.defined()) in.initial = initial.data();
  Tensor out = linear_attention(in).out;
  return record(op, {q, k, v, initial}, std::move(out),
                [q = Saved(op, q), k = Saved(op, k), v = Saved(op, v), causal, lag](
                    const Grads& grads, const NeedsGrad&) {
                  LinearAttentionInputs saved{q.get(), k.get(), v.get(), causal};
                  saved.normalized = false;
                  saved.lag = lag;
                  const auto g = linear_attention_backward(saved, {}, grads[0]);
                  return Grads{g.q, g.k, g.v, grads[0]};
                });
}

}  // namespace mobius
