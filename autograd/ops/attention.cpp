#include <utility>

#include "autograd/ops.h"
#include "core/score_maps/score_maps.h"

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

namespace {

template <class X>
std::vector<X> listed(const AttentionOperands<X>& operands) {
  std::vector<X> list;
  scores::for_each_operand([&](const char*, const X& x) { list.push_back(x); }, operands);
  return list;
}

}  // namespace

Variable attention(const AttentionSpec& spec, const AttentionVariables& in) {
  constexpr std::string_view op = "attention";
  const auto saved =
      map_operands(in, [](const Variable& x) { return x.defined() ? Saved(op, x) : Saved(); });
  const auto inputs = [saved] {
    return map_operands(saved, [](const Saved& x) { return x.get(); });
  };
  AttentionResult result = attention(spec, inputs());
  Saved out(op, result.out);
  return record(
      op, listed(in), std::move(result.out),
      [spec, inputs, out, lse = result.lse](const std::vector<Tensor>& grads, const NeedsGrad&) {
        return listed(attention_backward(spec, inputs(), {out.get(), lse}, grads[0]));
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
