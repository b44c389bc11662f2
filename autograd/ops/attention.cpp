#include "autograd/ops.h"

namespace mobius {
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
  return record(op, listed(in), std::move(result.out),
                [spec, inputs, out, lse = result.lse](const Grads& grads, const NeedsGrad&) {
                  return listed(attention_backward(spec, inputs(), {out.get(), lse}, grads[0]));
                });
}

}  // namespace mobius
