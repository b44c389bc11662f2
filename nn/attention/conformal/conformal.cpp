#include "nn/attention/conformal/conformal.h"

#include <algorithm>
#include <limits>

namespace mobius {

namespace {

// [B, H, n_q, 1] -> [B, H, n_q].
Variable per_query(const Variable& x) { return reshape(x, {x.size(0), x.size(1), x.size(2)}); }

// Returns the part g_i of log w_ij that does not depend on the key (core/ops/attention.h):
// log w_ij = g_i + s log((1 + r^2) / |query - key|^2). The analytic g_i is gamma log(1 - r^2) -
// s log(1 + r^2) - log count, because the factors (1 - r)^(2s) of Kt and of its mean cancel.
Variable log_factor(const Radius& radius, const ConformalKernel& kernel,
                    ConformalNormalize normalize, const Tensor& counts) {
  const auto& [weight, d, s, gamma] = kernel;
  const bool is_mean = normalize == ConformalNormalize::analytic;
  const bool is_custom = weight == ConformalWeight::custom;
  BallLogFactor how{.s = s};
  if (!is_mean)
    how.one_minus_r = 2 * s;
  else if (!is_custom)
    how.one_minus_r = how.one_plus_r = gamma;
  const Variable g =
      ball_log_factor(radius.r, radius.one_minus_r, is_mean ? counts : Tensor(), how);
  if (!is_mean || !is_custom) return g;
  const double half = static_cast<double>(d) / 2;
  return g - per_query(log_hyp2f1(s, s - half + 1, half, square(radius.r)));
}

// Takes radius[B, H, n_q, 1] and counts broadcastable to [B, H, n_q].
Diagnostic beyond_resolution(const Tensor& radius, const Tensor& counts, double s) {
  const Tensor per_query = radius.squeeze(-1);
  const std::vector<double> radii = per_query.to_vector<double>(),
                            n_keys = counts.expand(per_query.shape()).to_vector<double>();
  const auto n_q = static_cast<std::size_t>(radius.size(2)),
             n_heads = static_cast<std::size_t>(radius.size(1));
  std::vector<double> shares(n_heads), n_seeing(n_heads);
  for (std::size_t i = 0; i < radii.size(); ++i) {
    if (n_keys[i] < 1) continue;
    const std::size_t head = i / n_q % n_heads;
    ++n_seeing[head];
    shares[head] += radii[i] > resolution_limit(/*delta=*/1, n_keys[i], s) ? 1 : 0;
  }
  for (std::size_t head = 0; head < n_heads; ++head) shares[head] /= std::max(n_seeing[head], 1.0);
  return {"beyond_resolution", std::move(shares), /*summary=*/"share_beyond_resolution"};
}

class ConformalAttention final : public ConformalLayer {
 public:
  using ConformalLayer::ConformalLayer;

 protected:
  Variable attend(const HeadInputs& in) const override { return attention(call(in)); }
  Variable weights(const HeadInputs& in) const override { return attention_weights(call(in)); }

 private:
  AttentionCall call(const HeadInputs& in) const {
    return conformal_call(in, alpha(), kernel(), normalize());
  }
};

}  // namespace

Tensor visible_counts(const HeadInputs& in) {
  const std::int64_t n_q = in.q.size(-2), n_k = in.k.size(-2);
  const DType dtype = in.q.dtype();
  const Device device = in.q.device();
  if (!in.mask.is_simple()) return sum(materialize_mask(in.mask, n_q, n_k, device).to(dtype), {-1});
  if (!in.mask.causal) return Tensor::full({n_q}, static_cast<double>(n_k), dtype, device);
  const Tensor counts =
      affine(Tensor::arange(n_q, dtype, device), 1, static_cast<double>(n_k - n_q + 1));
  return n_q <= n_k ? counts : unary({UnaryOp::clamp, 0, static_cast<double>(n_k)}, counts);
}

AttentionCall conformal_call(const HeadInputs& in, const Variable& alpha,
                             const ConformalKernel& kernel, ConformalNormalize normalize) {
  const bool needs_counts = normalize == ConformalNormalize::analytic || in.sink != nullptr;
  return conformal_call(in, embed_in_ball(in.q, in.k, alpha, kernel.s),
                        needs_counts ? visible_counts(in) : Tensor(), kernel, normalize);
}

AttentionCall conformal_call(const HeadInputs& in, const BallPoints& points, const Tensor& counts,
                             const ConformalKernel& kernel, ConformalNormalize normalize) {
  const auto& [radius, qhat, zeta] = points;
  if (kernel.d != qhat.size(-1)) {
    throw ShapeError("conformal: a kernel of dimension {} for queries {}", kernel.d,
                     to_string(qhat.shape()));
  }
  if (in.sink != nullptr && counts.defined())
    in.sink->tell(beyond_resolution(radius.r.data(), counts, kernel.s));
  const Variable t = radius.sharpness.defined()
                         ? radius.sharpness
                         : scale(radius.r, 2) / affine(square(radius.r), 1, 1);
  AttentionCall call = product_call(in);
  call.spec.score = ScoreMap::conformal;
  call.spec.exponent = kernel.s;
  call.inputs.q = qhat;
  call.inputs.k = zeta;
  call.inputs.sharpness = per_query(t);
  if (normalize == ConformalNormalize::empirical) return call;

  call.spec.normalizer = WeightNormalizer::none;
  if (normalize == ConformalNormalize::none) call.spec.log_cap = 0;  // Kt <= 1, rounding aside
  call.inputs.log_factor = log_factor(radius, kernel, normalize, counts);
  return call;
}

void ConformalOptions::describe(Schema& schema) {
  schema.choice("weight", weight,
                {{"newton", ConformalWeight::newton},
                 {"poisson", ConformalWeight::poisson},
                 {"jacobian", ConformalWeight::jacobian},
                 {"custom", ConformalWeight::custom}},
                "kernel of the ball; custom takes s");
  schema.choice("normalize", normalize,
                {{"analytic", ConformalNormalize::analytic},
                 {"none", ConformalNormalize::none},
                 {"empirical", ConformalNormalize::empirical}},
                "what divides the kernel: its mean over the sphere, nothing, or its sum");
  const auto is_custom = [this] { return weight == ConformalWeight::custom; };
  schema.field("s", s, "exponent of the distance")
      .positive()
      .at_most(10000)
      .only_if(is_custom, "weight: custom");
  schema
      .field("gamma", gamma,
             "exponent of 1 - r^2: it cancels from the weights, so that only null and 0 are taken")
      .only_if(is_custom, "weight: custom");
  schema.field("alpha", alpha, "initial inverse temperature per unit of |q| / sqrt(d)").positive();
  schema.field("learn_alpha", learn_alpha, "whether alpha is trained, one number a head");
  schema.check("s", [this, is_custom] {
    if (is_custom() && !s) throw ConfigError("weight: custom needs it, and has no default for it");
  });
  schema.check("gamma", [this] {
    if (gamma && *gamma != 0)
      throw ConfigError(
          "has no effect: (1 - r^2)^{} is the same for every key and cancels from the weights",
          *gamma);
  });
}

ConformalLayer::ConformalLayer(const AttentionContext& context, const ConformalOptions& options)
    : MultiHeadAttention(context),
      kernel_(conformal_kernel(options.weight, head_dim(), options.s, options.gamma)),
      normalize_(options.normalize),
      raw_alpha_(register_parameter("raw_alpha",
                                    context.init.full({n_heads()}, inverse_softplus(options.alpha)),
                                    options.learn_alpha)) {
  refuse_distance_bias(context,
                       "a number added to log K is not part of the kernel, whose mean over the "
                       "sphere normalises it");
}

void ConformalLayer::tell_parameters(DiagnosticsSink& sink) const {
  sink.tell({"alpha", softplus(raw_alpha_).data().to_vector<double>()});
}

Variable ConformalLayer::alpha() const { return reshape(softplus(raw_alpha_), {n_heads(), 1, 1}); }

std::shared_ptr<Attention> ConformalOptions::make(const AttentionContext& context) const {
  return std::make_shared<ConformalAttention>(context, *this);
}

}  // namespace mobius
