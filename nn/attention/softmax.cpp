#include "nn/attention/softmax.h"

#include <cmath>

namespace mobius {

namespace {

class SoftmaxAttention final : public FusedAttention {
 public:
  SoftmaxAttention(const AttentionContext& context, std::optional<double> scale)
      : FusedAttention(context), scale_(scale) {}

 protected:
  AttentionCall call(const HeadInputs& in) const override { return softmax_call(in, scale_); }

 private:
  std::optional<double> scale_;
};

}  // namespace

AttentionCall softmax_call(const HeadInputs& in, std::optional<double> scale) {
  if (scale && !(*scale > 0)) throw Error("softmax: expected a scale above 0, got {}", *scale);
  AttentionCall call = product_call(in);
  call.spec.scale = scale.value_or(1 / std::sqrt(static_cast<double>(in.q.size(-1))));
  return call;
}

void SoftmaxOptions::describe(Schema& schema) {
  schema.field("scale", scale, "factor on the dot products; null: 1 / sqrt(head dimension)")
      .positive();
}

std::shared_ptr<Attention> SoftmaxOptions::make(const AttentionContext& context) const {
  return std::make_shared<SoftmaxAttention>(context, scale);
}

}  // namespace mobius
