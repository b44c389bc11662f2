#include "nn/attention/attention.h"

#include "core/options/validate.h"

namespace mobius {

std::unique_ptr<AttentionCache> Attention::make_cache() const {
  return std::make_unique<InputCache>();
}

Variable Attention::extend(const Variable& x, AttentionCache& cache) const {
  const NoGradGuard no_grad;
  const Variable all = dynamic_cast<InputCache&>(cache).append(x);
  const Variable out = forward(all, {.causal = true}, {});
  return slice(out, 1, out.size(1) - x.size(1), out.size(1));
}

std::shared_ptr<Attention> AttentionOptions::build(AttentionContext context) const {
  context.kind = kind();
  validate_options(*this, context.kind);
  context.model.validate();
  return make(context);
}

void refuse_weight_dropout(const AttentionContext& context) {
  if (const double dropout = context.model.attention_dropout; dropout > 0)
    throw ConfigError(
        "{}: attention_dropout does not go with it: it never forms the weights to drop, got {}",
        context.kind, dropout);
}

void refuse_distance_bias(const AttentionContext& context, std::string_view why) {
  const Positions positions = context.model.positions;
  if (positions == Positions::alibi || positions == Positions::relative)
    throw ConfigError("{}: positions {} do not go with it: {}", context.kind,
                      positions == Positions::alibi ? "alibi" : "relative", why);
}

}  // namespace mobius
