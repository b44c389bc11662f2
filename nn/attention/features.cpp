#include "nn/attention/features.h"

namespace mobius {

namespace {

void require_carried_sums(const AttentionMask& mask) {
  if (!mask.is_simple())
    throw Error(
        "attention by features: expected no mask but causal, got a {}: its sums over keys are "
        "carried from query to query and cannot leave out single pairs",
        mask.window > 0 ? "window" : "given mask");
}

}  // namespace

Variable attention(const FeatureCall& call) {
  require_carried_sums(call.mask);
  return linear_attention(call.q, call.k, call.v, call.mask.causal, call.eps);
}

Variable attention_weights(const FeatureCall& call) {
  require_carried_sums(call.mask);
  const Variable products = masked_products(call.q, call.k, call.mask);
  return products / affine(sum(products, {-1}, /*keepdim=*/true), 1, call.eps);
}

FeatureAttention::FeatureAttention(const AttentionContext& context) : MultiHeadAttention(context) {
  refuse_distance_bias(context, "its weights are products of features, with no score to add to");
  refuse_weight_dropout(context);
}

std::unique_ptr<AttentionCache> FeatureAttention::make_cache() const {
  return std::make_unique<MomentCache>();
}

Variable FeatureAttention::attend_cached(HeadInputs in, AttentionCache& cache) const {
  const FeatureCall features = call(in);
  return dynamic_cast<MomentCache&>(cache).attend(features.q, features.k, features.v, features.eps);
}

}  // namespace mobius
