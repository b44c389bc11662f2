#include "nn/attention/linear.h"

#include "nn/attention/multi_head.h"

namespace mobius {

namespace {

class LinearAttention final : public MultiHeadAttention {
 public:
  using MultiHeadAttention::MultiHeadAttention;

  std::unique_ptr<AttentionCache> make_cache() const override {
    return std::make_unique<MomentCache>();
  }

 protected:
  Variable attend_cached(HeadInputs in, AttentionCache& cache) override {
    return dynamic_cast<MomentCache&>(cache).attend(elu_plus_one(in.q), elu_plus_one(in.k), in.v,
                                                    linear_attention_eps);
  }
  Variable attend(const HeadInputs& in) override {
    return elu_linear_attention(in.q, in.k, in.v, in.mask);
  }
  Variable weights(const HeadInputs& in) override {
    return elu_linear_weights(in.q, in.k, in.mask);
  }
};

}  // namespace

void require_carried_sums(std::string_view variant, const AttentionMask& mask) {
  if (!mask.is_simple())
    throw Error(
        "{}: expected no mask but causal, got a {}: its sums over keys are carried from query to "
        "query and cannot leave out single pairs",
        variant, mask.window > 0 ? "window" : "given mask");
}

Variable elu_linear_attention(const Variable& q, const Variable& k, const Variable& v,
                              const AttentionMask& mask) {
  require_carried_sums("linear", mask);
  return linear_attention(elu_plus_one(q), elu_plus_one(k), v, mask.causal, linear_attention_eps);
}

Variable elu_linear_weights(const Variable& q, const Variable& k, const AttentionMask& mask) {
  require_carried_sums("linear", mask);
  return feature_weights(elu_plus_one(q), elu_plus_one(k), mask, linear_attention_eps);
}

std::shared_ptr<Attention> LinearAttentionOptions::build(const AttentionContext& context) const {
  refuse_distance_bias(context, "linear",
                       "its weights are products of features, with no score to add to");
  refuse_weight_dropout(context, "linear");
  return std::make_shared<LinearAttention>(context);
}

}  // namespace mobius
