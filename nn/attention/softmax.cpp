#include "nn/attention/softmax.h"

#include <cmath>

#include "nn/attention/multi_head.h"

namespace mobius {

namespace {

class SoftmaxAttention final : public MultiHeadAttention {
 public:
  SoftmaxAttention(const AttentionContext& context, std::optional<double> scale)
      : MultiHeadAttention(context), scale_(scale) {}

 protected:
  Variable attend(const Variable& q, const Variable& k, const Variable& v,
                  const AttentionMask& mask) override {
    return softmax_attention(q, k, v, mask, scale_);
  }

 private:
  std::optional<double> scale_;
};

}  // namespace

Variable softmax_attention(const Variable& q, const Variable& k, const Variable& v,
                           const AttentionMask& mask, std::optional<double> scale) {
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1))));
  return attention({.scale = factor, .mask = mask}, {.q = q, .k = k, .v = v});
}

void SoftmaxOptions::describe(Schema& schema) {
  schema.field("scale", scale, "factor on the dot products; null: 1 / sqrt(head dimension)")
      .positive();
}

std::shared_ptr<Attention> SoftmaxOptions::build(const AttentionContext& context) const {
  return std::make_shared<SoftmaxAttention>(context, scale);
}

}  // namespace mobius
