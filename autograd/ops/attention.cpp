#include <utility>

#include "autograd/ops.h"

namespace mobius {

Variable masked_softmax(const Variable& scores, double scale, const AttentionMask& mask) {
  Tensor weights = masked_softmax(scores.data(), scale, mask);
  Saved saved("masked_softmax", weights);
  return record("masked_softmax", {scores}, std::move(weights),
                [saved, scale](const std::vector<Tensor>& grads, const NeedsGrad&) {
                  return std::vector<Tensor>{softmax_backward(saved.get(), grads[0], scale)};
                });
}

Variable rope(const Variable& x, double base, std::int64_t offset) {
  return record("rope", {x}, rope(x.data(), base, offset),
                [base, offset](const std::vector<Tensor>& grads, const NeedsGrad&) {
                  return std::vector<Tensor>{rope(grads[0], base, offset, -1)};
                });
}

Variable attention(const AttentionSpec& spec, const AttentionVariables& in) {
  constexpr std::string_view op = "attention";
  const std::vector<Variable> variables{
      in.q, in.k, in.v, in.key_bias, in.distance_bias, in.sharpness, in.log_factor};
  std::vector<Saved> saved;
  for (const Variable& x : variables) {
    saved.push_back(x.defined() ? Saved(op, x) : Saved());
  }
  const auto unpack = [](const std::vector<Saved>& s) {
    return AttentionInputs{s[0].get(), s[1].get(), s[2].get(), s[3].get(),
                           s[4].get(), s[5].get(), s[6].get()};
  };
  AttentionResult result = attention(spec, unpack(saved));
  Saved out(op, result.out);
  return record(
      op, variables, std::move(result.out),
      [spec, saved, unpack, out, lse = result.lse](const std::vector<Tensor>& grads,
                                                   const NeedsGrad&) {
        AttentionGrads g = attention_backward(spec, unpack(saved), {out.get(), lse}, grads[0]);
        return std::vector<Tensor>{std::move(g.q),
                                   std::move(g.k),
                                   std::move(g.v),
                                   std::move(g.key_bias),
                                   std::move(g.distance_bias),
                                   std::move(g.sharpness),
                                   std::move(g.log_factor)};
      });
}

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
