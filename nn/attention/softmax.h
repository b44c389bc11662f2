// Scaled dot-product attention (Vaswani et al. 2017).
//
//   out_i = sum_j softmax_j( scale <q_i, k_j> ) v_j
#pragma once

#include <memory>
#include <optional>

#include "nn/attention/multi_head.h"

namespace mobius {

/// The default scale is 1 / sqrt(d). A query that sees no key gives a zero row. Throws Error unless
/// the scale is above 0.
AttentionCall softmax_call(const HeadInputs& in, std::optional<double> scale = {});

class SoftmaxOptions : public AttentionOptions {
 public:
  std::optional<double> scale;  // null: 1 / sqrt(head dimension)

  std::string kind() const override { return "softmax"; }
  void describe(Schema& schema) override;

 protected:
  std::shared_ptr<Attention> make(const AttentionContext& context) const override;
};

}  // namespace mobius
