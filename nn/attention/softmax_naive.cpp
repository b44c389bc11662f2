#include "nn/attention/softmax_naive.h"

namespace mobius {

namespace {

class SoftmaxNaiveAttention final : public MultiHeadAttention {
 public:
  SoftmaxNaiveAttention(const AttentionContext& context, std::optional<double> scale)
      : MultiHeadAttention(context), scale_(scale) {}

 protected:
  Variable weights(const HeadInputs& in) const override {
    return softmax_naive_weights(in, scale_);
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

Variable softmax_naive_weights(const HeadInputs& in, std::optional<double> scale) {
  AttentionCall call = softmax_call(in, scale);
  call.spec.normalizer = WeightNormalizer::none;
  const Variable w = attention_weights(call);
  const Tensor allowed = materialize_mask(in.mask, in.q.size(-2), in.k.size(-2), in.q.device());
  return w / (sum(w, {-1}, /*keepdim=*/true) + Variable(is_blind(allowed, in.q.dtype())));
}

std::shared_ptr<Attention> SoftmaxNaiveOptions::make(const AttentionContext& context) const {
  return std::make_shared<SoftmaxNaiveAttention>(context, scale);
}

}  // namespace mobius
