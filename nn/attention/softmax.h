// Scaled dot-product attention (Vaswani et al. 2017).
//
//   out_i = sum_j softmax_j( scale <q_i, k_j> ) v_j
#pragma once

#include <memory>
#include <optional>

#include "nn/attention/multi_head.h"

namespace mobius {

/// softmax_j( scale <q_i, k_j> ) v_j over the keys that the mask lets query i see; a query that
/// sees none gives a zero row. Without scale: 1 / sqrt(d); one that is not above 0 throws Error.
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
