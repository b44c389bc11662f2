#include "autograd/ops/linear_attention.h"

#include <utility>

namespace mobius {

Variable linear_attention(const Variable& q, const Variable& k, const Variable& v, bool causal,
                          double eps) {
  constexpr std::string_view op = "linear_attention";
  LinearAttentionResult result = linear_attention({q.data(), k.data(), v.data(), causal, eps});
  Saved out(op, result.out);
  return record(
      op, {q, k, v}, std::move(result.out),
      [q = Saved(op, q), k = Saved(op, k), v = Saved(op, v), out, denominator = result.denominator,
       causal, eps](const std::vector<Tensor>& grads, const NeedsGrad&) {
        LinearAttentionGrads g = linear_attention_backward({q.get(), k.get(), v.get(), causal, eps},
                                                           {out.get(), denominator}, grads[0]);
        return std::vector<Tensor>{std::move(g.q), std::move(g.k), std::move(g.v)};
      });
}

}  // namespace mobius
