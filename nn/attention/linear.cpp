#include "nn/attention/linear.h"

namespace mobius {

namespace {

class LinearAttention final : public FeatureAttention {
 public:
  using FeatureAttention::FeatureAttention;

 protected:
  FeatureCall call(const HeadInputs& in) const override { return linear_call(in); }
};

}  // namespace

FeatureCall linear_call(const HeadInputs& in) {
  return {elu_plus_one(in.q), elu_plus_one(in.k), in.v, in.mask, linear_attention_eps};
}

std::shared_ptr<Attention> LinearAttentionOptions::make(const AttentionContext& context) const {
  return std::make_shared<LinearAttention>(context);
}

}  // namespace mobius
