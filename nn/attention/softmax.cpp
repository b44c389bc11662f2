#include "nn/attention/softmax.h"

#include <cmath>

#include "core/options/validate.h"
#include "nn/attention/multi_head.h"

namespace mobius {

namespace {

class SoftmaxAttention final : public MultiHeadAttention {
 public:
  SoftmaxAttention(const AttentionContext& context, std::optional<double> scale)
      : MultiHeadAttention(context), scale_(scale) {}

 protected:
  Variable attend(const HeadInputs& in) override {
    return softmax_attention(in.q, in.k, in.v, in.mask, scale_, in.extras);
  }
  Variable weights(const HeadInputs& in) override {
    return softmax_weights(in.q, in.k, in.mask, scale_, in.extras);
  }

 private:
  std::optional<double> scale_;
};

}  // namespace

AttentionCall softmax_call(const Variable& q, const Variable& k, const Variable& v,
                           const AttentionMask& mask, std::optional<double> scale,
                           const AttentionExtras& extras) {
  if (scale && !(*scale > 0)) throw Error("softmax: expected a scale above 0, got {}", *scale);
  return {.spec = {.scale = scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1)))),
                   .mask = mask,
                   .dropout = extras.dropout,
                   .dropout_key = extras.dropout_key},
          .inputs = {.q = q, .k = k, .v = v, .distance_bias = extras.distance_bias}};
}

Variable softmax_attention(const Variable& q, const Variable& k, const Variable& v,
                           const AttentionMask& mask, std::optional<double> scale,
                           const AttentionExtras& extras) {
  return attention(softmax_call(q, k, v, mask, scale, extras));
}

Variable softmax_weights(const Variable& q, const Variable& k, const AttentionMask& mask,
                         std::optional<double> scale, const AttentionExtras& extras) {
  return attention_weights(softmax_call(q, k, {}, mask, scale, extras));
}

void SoftmaxOptions::describe(Schema& schema) {
  schema.field("scale", scale, "factor on the dot products; null: 1 / sqrt(head dimension)")
      .positive();
}

std::shared_ptr<Attention> SoftmaxOptions::build(const AttentionContext& context) const {
  validate_option_values(*this, "softmax");
  return std::make_shared<SoftmaxAttention>(context, scale);
}

}  // namespace mobius
