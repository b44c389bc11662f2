#include "autograd/ops/attention.h"

#include <utility>

namespace mobius {

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

}  // namespace mobius
