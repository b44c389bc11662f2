// Linear attention (Katharopoulos et al. 2020): attention by the features phi(x) = elu(x) + 1.
#pragma once

#include <memory>

#include "nn/attention/features.h"

namespace mobius {

constexpr double linear_attention_eps = 1e-6;

FeatureCall linear_call(const HeadInputs& in);

class LinearAttentionOptions : public AttentionOptions {
 public:
  std::string kind() const override { return "linear"; }
  void describe(Schema&) override {}

 protected:
  std::shared_ptr<Attention> make(const AttentionContext& context) const override;
};

}  // namespace mobius
