#include "nn/attention/conformal.h"

#include <cmath>
#include <limits>

#include "core/options/validate.h"
#include "nn/attention/multi_head.h"

namespace mobius {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Number of keys that each query sees, [..., n_q].
Tensor visible_counts(const AttentionMask& mask, std::int64_t n_q, std::int64_t n_k, DType dtype,
                      Device device) {
  if (mask.mask.defined() || mask.window > 0)
    return sum(materialize_mask(mask, n_q, n_k, device).to(dtype), {-1});
  const auto most = static_cast<double>(n_k);
  if (!mask.causal) return Tensor::full({n_q}, most, dtype, device);
  const Tensor positions =
      affine(Tensor::arange(n_q, dtype, device), 1, most - static_cast<double>(n_q));
  return unary({UnaryOp::clamp, 0, most}, affine(positions, 1, 1));
}

// [B, H, n_q, 1] -> [B, H, n_q].
Variable per_query(const Variable& x) { return reshape(x, {x.size(0), x.size(1), x.size(2)}); }

// The part of log w_ij that does not depend on the key, g_i of core/ops/attention.h: log w_ij = g_i +
// s log((1 + r^2) / |query - key|^2). The analytic one is gamma log(1 - r^2) - s log(1 + r^2) -
// log count: the factors (1 - r)^(2s) of Kt and of its mean cancel, and are left out.
Variable log_factor(const Radius& radius, const ConformalKernel& kernel,
                    ConformalNormalize normalize, const Tensor& counts) {
  const auto& [r, one_minus_r] = radius;
  const auto [weight, d, s, gamma] = kernel;
  const Variable r_squared = square(r);
  const Variable spread = scale(log1p(r_squared), -s);
  if (normalize == ConformalNormalize::none)
    return per_query(spread + scale(log(one_minus_r), 2 * s));

  // A query that sees no key has no weight to divide.
  const Variable log_count(unary({UnaryOp::log}, unary({UnaryOp::clamp, 1, infinity}, counts)));
  const Variable per_key = per_query(spread) - log_count;
  if (weight == ConformalWeight::custom) {
    const double half = static_cast<double>(d) / 2;
    return per_key - per_query(log_hyp2f1(s, s - half + 1, half, r_squared));
  }
  if (gamma == 0) return per_key;
  return per_key + per_query(scale(log(one_minus_r) + log1p(r), gamma));
}

AttentionCall conformal_call(const BallPoints& points, const Variable& v,
                             const ConformalKernel& kernel, ConformalNormalize normalize,
                             const AttentionMask& mask, const AttentionExtras& extras) {
  const auto& [radius, qhat, zeta] = points;
  if (kernel.d != qhat.size(-1)) {
    throw ShapeError("conformal: a kernel of dimension {} for queries {}", kernel.d,
                     to_string(qhat.shape()));
  }
  // |query - key|^2 = (1 + r^2)(1 - t u) with t = 2r / (1 + r^2): small u keep their digits.
  const Variable t = scale(radius.r, 2) / affine(square(radius.r), 1, 1);
  AttentionCall call{.spec = {.score = ScoreMap::conformal,
                              .exponent = kernel.s,
                              .mask = mask,
                              .dropout = extras.dropout,
                              .dropout_key = extras.dropout_key},
                     .inputs = {.q = qhat,
                                .k = zeta,
                                .v = v,
                                .distance_bias = extras.distance_bias,
                                .sharpness = per_query(t)}};
  if (normalize == ConformalNormalize::empirical) return call;

  call.spec.normalizer = WeightNormalizer::none;
  if (normalize == ConformalNormalize::none) call.spec.log_cap = 0;  // Kt <= 1, rounding aside
  call.inputs.log_factor =
      log_factor(radius, kernel, normalize,
                 visible_counts(mask, qhat.size(-2), zeta.size(-2), qhat.dtype(), qhat.device()));
  return call;
}

class ConformalAttention final : public MultiHeadAttention {
 public:
  ConformalAttention(const AttentionContext& context, const ConformalOptions& options)
      : MultiHeadAttention(context),
        kernel_(conformal_kernel(options.weight, head_dim(), options.s, options.gamma)),
        normalize_(options.normalize) {
    const Tensor initial = context.init.full({n_heads()}, inverse_softplus(options.alpha));
    raw_alpha_ = options.learn_alpha ? register_parameter("raw_alpha", initial)
                                     : Variable(register_buffer("raw_alpha", initial));
  }

  AttentionDiagnostics diagnostics() const override {
    AttentionDiagnostics diagnostics = MultiHeadAttention::diagnostics();
    diagnostics.alpha = unary({UnaryOp::softplus}, raw_alpha_.data()).to_vector<double>();
    for (const SeeingQueries& head : seeing_queries())
      diagnostics.beyond_resolution.push_back(head.share_beyond());
    return diagnostics;
  }

  double share_beyond_resolution() const override {
    if (!radius_.defined()) return -1;
    SeeingQueries all;
    for (const SeeingQueries& head : seeing_queries()) {
      all.n += head.n;
      all.n_beyond += head.n_beyond;
    }
    return all.share_beyond();
  }

 protected:
  Variable attend(const HeadInputs& in) override {
    const BallPoints points = points_of(in);
    remember(points.radius.r.data(), in.k.size(-2), in.mask);
    return conformal_attention(points, in.v, kernel_, normalize_, in.mask, in.extras);
  }
  Variable weights(const HeadInputs& in) override {
    return conformal_weights(points_of(in), kernel_, normalize_, in.mask);
  }

 private:
  // Queries that see a key, and those of them that lie beyond the resolution limit.
  struct SeeingQueries {
    std::int64_t n = 0, n_beyond = 0;
    double share_beyond() const {
      return n == 0 ? 0 : static_cast<double>(n_beyond) / static_cast<double>(n);
    }
  };

  // Of the last forward pass, by head; nothing before one.
  std::vector<SeeingQueries> seeing_queries() const {
    if (!radius_.defined()) return {};
    const std::vector<double> radii = radius_.to_vector<double>();
    const std::vector<double> counts = counts_.expand(radius_.shape()).to_vector<double>();
    const auto n_q = static_cast<std::size_t>(radius_.size(2));
    std::vector<SeeingQueries> heads(static_cast<std::size_t>(n_heads()));
    for (std::size_t i = 0; i < radii.size(); ++i) {
      if (counts[i] < 1) continue;
      SeeingQueries& head = heads[i / n_q % heads.size()];
      ++head.n;
      if (radii[i] > resolution_limit(/*delta=*/1, counts[i], kernel_.s)) ++head.n_beyond;
    }
    return heads;
  }

  BallPoints points_of(const HeadInputs& in) const {
    return embed_in_ball(in.q, in.k, reshape(softplus(raw_alpha_), {n_heads(), 1, 1}), kernel_.s);
  }

  // For seeing_queries().
  void remember(const Tensor& radius, std::int64_t n_k, const AttentionMask& mask) {
    radius_ = radius.squeeze(-1);
    counts_ = visible_counts(mask, radius.size(-2), n_k, radius.dtype(), radius.device());
  }

  ConformalKernel kernel_;
  ConformalNormalize normalize_;
  Variable raw_alpha_;
  Tensor radius_, counts_;  // of the last forward pass, [B, H, n_q] and broadcastable to it
};

}  // namespace

Variable conformal_attention(const BallPoints& points, const Variable& v,
                             const ConformalKernel& kernel, ConformalNormalize normalize,
                             const AttentionMask& mask, const AttentionExtras& extras) {
  return attention(conformal_call(points, v, kernel, normalize, mask, extras));
}

Variable conformal_weights(const BallPoints& points, const ConformalKernel& kernel,
                           ConformalNormalize normalize, const AttentionMask& mask) {
  return attention_weights(conformal_call(points, {}, kernel, normalize, mask, {}));
}

Variable conformal_attention(const Variable& q, const Variable& k, const Variable& v,
                             const Variable& alpha, const ConformalKernel& kernel,
                             ConformalNormalize normalize, const AttentionMask& mask,
                             const AttentionExtras& extras) {
  return conformal_attention(embed_in_ball(q, k, alpha, kernel.s), v, kernel, normalize, mask,
                             extras);
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
  schema.field("s", s, "exponent of the distance, for weight custom").positive();
  schema.field("gamma", gamma,
               "exponent of 1 - r^2, for weight custom: it cancels from the weights, so that only "
               "null and 0 are taken");
  schema.field("alpha", alpha, "initial inverse temperature per unit of |q| / sqrt(d)").positive();
  schema.field("learn_alpha", learn_alpha, "whether alpha is trained, one number a head");
  schema.check("s", [this] { conformal_kernel(weight, /*d=*/2, s); });
  schema.check("gamma", [this] {
    if (gamma && *gamma != 0)
      throw ConfigError(
          "has no effect: (1 - r^2)^{} is the same for every key and cancels from the weights",
          *gamma);
  });
}

std::shared_ptr<Attention> ConformalOptions::build(const AttentionContext& context) const {
  validate_option_values(*this, "conformal");
  refuse_distance_bias(context, "conformal",
                       "a number added to log K is not part of the kernel, whose mean over the "
                       "sphere normalises it");
  return std::make_shared<ConformalAttention>(context, *this);
}

}  // namespace mobius
