#include "nn/attention/softmax_naive.h"

#include "core/options/validate.h"
#include "nn/attention/multi_head.h"

namespace mobius {

namespace {

class SoftmaxNaiveAttention final : public MultiHeadAttention {
 public:
  SoftmaxNaiveAttention(const AttentionContext& context, std::optional<double> scale)
      : MultiHeadAttention(context), scale_(scale) {}

 protected:
  Variable attend(const HeadInputs& in) override {
    return softmax_naive_attention(in.q, in.k, in.v, in.mask, scale_, in.extras);
  }
  Variable weights(const HeadInputs& in) override {
    return softmax_naive_weights(in.q, in.k, in.mask, scale_, in.extras);
  }

 private:
  std::optional<double> scale_;
};

// 1 for a query that sees no key, else 0: [..., n_q, 1].
Tensor is_blind(const Tensor& allowed, DType dtype) {
  const Tensor counts = sum(allowed.to(dtype), {-1}, /*keepdim=*/true);
  return compare(CompareOp::equal, counts, Tensor::zeros({}, dtype, allowed.device())).to(dtype);
}

}  // namespace

Variable softmax_naive_weights(const Variable& q, const Variable& k, const AttentionMask& mask,
                               std::optional<double> scale, const AttentionExtras& extras) {
  AttentionCall call = softmax_call(q, k, {}, mask, scale, extras);
  call.spec.normalizer = WeightNormalizer::none;
  const Variable w = attention_weights(call);
  const Tensor allowed = materialize_mask(mask, q.size(-2), k.size(-2), q.device());
  return w / (sum(w, {-1}, /*keepdim=*/true) + Variable(is_blind(allowed, q.dtype())));
}

Variable softmax_naive_attention(const Variable& q, const Variable& k, const Variable& v,
                                 const AttentionMask& mask, std::optional<double> scale,
                                 const AttentionExtras& extras) {
  const Variable weights = softmax_naive_weights(q, k, mask, scale, extras);
  const bool drops = extras.dropout > 0;
  return apply_weights(drops ? dropout(weights, extras.dropout, extras.dropout_key) : weights, v);
}

std::shared_ptr<Attention> SoftmaxNaiveOptions::build(const AttentionContext& context) const {
  validate_option_values(*this, "softmax_naive");
  return std::make_shared<SoftmaxNaiveAttention>(context, scale);
}

}  // namespace mobius
