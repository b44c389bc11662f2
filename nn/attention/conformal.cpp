#include "nn/attention/conformal.h"

#include <cmath>
#include <limits>

#include "nn/attention/multi_head.h"

namespace mobius {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Keeps float32 finite beyond the resolution limit.
constexpr double largest_log_weight = 80;

// The largest number below 1, or in its precision.
double below_one(DType dtype) {
  return dtype == DType::f64 ? std::nextafter(1.0, 0.0)
                             : static_cast<double>(std::nextafter(1.0f, 0.0f));
}

// Which keys each query sees (u8), undefined where all see all.
Tensor allowed_keys(const AttentionMask& mask, std::int64_t n_q, std::int64_t n_k, Device device) {
  if (!mask.causal && !mask.mask.defined() && mask.window == 0) return {};
  return materialize_mask(mask, n_q, n_k, device);
}

// Number of keys that each query sees, [..., n_q, 1].
Tensor visible_counts(const Tensor& allowed, std::int64_t n_k, DType dtype, Device device) {
  if (!allowed.defined()) return Tensor::full({1, 1}, static_cast<double>(n_k), dtype, device);
  return sum(allowed.to(dtype), {-1}, /*keepdim=*/true);
}

Tensor log_counts(const Tensor& counts) {
  return unary({UnaryOp::log}, unary({UnaryOp::clamp, 1, infinity}, counts));
}

// The part of log w_ij that does not depend on the key: log w_ij = row_term + s log((1 + r^2) /
// |query - key|^2). The analytic one is gamma log(1 - r^2) - s log(1 + r^2) - log count: the
// factors (1 - r)^(2s) of Kt and of its mean cancel, and are left out.
Variable row_term(const Radius& radius, const ConformalKernel& kernel, ConformalNormalize normalize,
                  const Tensor& counts) {
  const auto& [r, one_minus_r] = radius;
  const auto [weight, d, s, gamma] = kernel;
  const Variable r_squared = square(r);
  const Variable spread = scale(log1p(r_squared), -s);
  if (normalize == ConformalNormalize::none) return spread + scale(log(one_minus_r), 2 * s);

  const Variable per_key = spread - Variable(log_counts(counts));
  if (weight == ConformalWeight::custom) {
    const double half = static_cast<double>(d) / 2;
    return per_key - log_hyp2f1(s, s - half + 1, half, r_squared);
  }
  if (gamma == 0) return per_key;
  return per_key + scale(log(one_minus_r) + log1p(r), gamma);
}

// log( |query - key|^2 / (1 + r^2) ) = log(1 - t u) with t = 2r / (1 + r^2), [B, H, n_q, n_k].
// Small u, as in high dimension, keep their digits. Rounding may carry t u past 1: clamped.
Variable log_distances(const BallPoints& points) {
  const Variable& r = points.radius.r;
  const Variable minus_t = scale(r, -2) / affine(square(r), 1, 1);
  const Variable minus_tu = matmul(minus_t * points.qhat, transpose(points.zeta, -2, -1));
  return log1p(clamp(minus_tu, -below_one(minus_tu.dtype()), infinity));
}

class ConformalAttention final : public MultiHeadAttention {
 public:
  ConformalAttention(const AttentionContext& context, const ConformalOptions& options)
      : MultiHeadAttention(context),
        kernel_(conformal_kernel(options.weight, head_dim(), options.s, options.gamma)),
        normalize_(options.normalize) {
    if (!(options.alpha > 0))
      throw ConfigError("conformal: expected alpha > 0, got {}", options.alpha);
    // softplus(raw_alpha) = alpha
    const double raw = options.alpha + std::log(-std::expm1(-options.alpha));
    const Tensor initial = context.init.full({n_heads()}, raw);
    raw_alpha_ = options.learn_alpha ? register_parameter("raw_alpha", initial)
                                     : Variable(register_buffer("raw_alpha", initial));
  }

  double share_beyond_resolution() const override {
    if (!radius_.defined()) return -1;
    const std::vector<double> radii = radius_.to_vector<double>();
    const std::vector<double> counts = counts_.expand(radius_.shape()).to_vector<double>();
    std::int64_t n_seeing = 0, n_beyond = 0;
    for (std::size_t i = 0; i < radii.size(); ++i) {
      if (counts[i] < 1) continue;
      ++n_seeing;
      if (radii[i] > resolution_limit(/*delta=*/1, counts[i], kernel_.s)) ++n_beyond;
    }
    return n_seeing == 0 ? 0 : static_cast<double>(n_beyond) / static_cast<double>(n_seeing);
  }

 protected:
  Variable attend(const Variable& q, const Variable& k, const Variable& v,
                  const AttentionMask& mask) override {
    const Variable alpha = reshape(softplus(raw_alpha_), {n_heads(), 1, 1});
    const BallPoints points = embed_in_ball(q, k, alpha, kernel_.s);
    remember(points.radius.r.data(), k.size(-2), mask);
    return conformal_attention(points, v, kernel_, normalize_, mask);
  }

 private:
  // For share_beyond_resolution().
  void remember(const Tensor& radius, std::int64_t n_k, const AttentionMask& mask) {
    const Device device = radius.device();
    radius_ = radius;
    counts_ = visible_counts(allowed_keys(mask, radius.size(-2), n_k, device), n_k, radius.dtype(),
                             device);
  }

  ConformalKernel kernel_;
  ConformalNormalize normalize_;
  Variable raw_alpha_;
  Tensor radius_, counts_;  // of the last forward pass, [B, H, n_q, 1] and broadcastable to it
};

}  // namespace

Variable conformal_attention(const BallPoints& points, const Variable& v,
                             const ConformalKernel& kernel, ConformalNormalize normalize,
                             const AttentionMask& mask) {
  const Variable distances = log_distances(points);
  if (normalize == ConformalNormalize::empirical)
    return matmul(masked_softmax(distances, -kernel.s, mask), v);

  const std::int64_t n_q = distances.size(-2), n_k = distances.size(-1);
  const Tensor allowed = allowed_keys(mask, n_q, n_k, distances.device());
  const Tensor counts = visible_counts(allowed, n_k, distances.dtype(), distances.device());
  const Variable log_weights =
      row_term(points.radius, kernel, normalize, counts) + scale(distances, -kernel.s);
  const double cap = normalize == ConformalNormalize::none ? 0 : largest_log_weight;
  const Variable weights = exp(clamp(log_weights, -infinity, cap));
  if (!allowed.defined()) return matmul(weights, v);
  const Variable zero(Tensor::zeros({1}, weights.dtype(), weights.device()));
  return matmul(where(allowed, weights, zero), v);
}

Variable conformal_attention(const Variable& q, const Variable& k, const Variable& v,
                             const Variable& alpha, const ConformalKernel& kernel,
                             ConformalNormalize normalize, const AttentionMask& mask) {
  return conformal_attention(embed_in_ball(q, k, alpha, kernel.s), v, kernel, normalize, mask);
}

void ConformalOptions::describe(Schema& schema) {
  schema.choice("weight", weight,
                {{"newton", ConformalWeight::newton},
                 {"poisson", ConformalWeight::poisson},
                 {"jacobian", ConformalWeight::jacobian},
                 {"custom", ConformalWeight::custom}},
                "kernel of the ball; custom takes s and gamma");
  schema.choice("normalize", normalize,
                {{"analytic", ConformalNormalize::analytic},
                 {"none", ConformalNormalize::none},
                 {"empirical", ConformalNormalize::empirical}},
                "what divides the kernel: its mean over the sphere, nothing, or its sum");
  schema.field("s", s, "exponent of the distance, for weight custom").positive();
  schema.field("gamma", gamma, "exponent of 1 - r^2, for weight custom");
  schema.field("alpha", alpha, "initial inverse temperature per unit of |q| / sqrt(d)").positive();
  schema.field("learn_alpha", learn_alpha, "whether alpha is trained, one number a head");
  schema.check("s", [this] { conformal_kernel(weight, /*d=*/2, s, gamma); });
}

std::shared_ptr<Attention> ConformalOptions::build(const AttentionContext& context) const {
  return std::make_shared<ConformalAttention>(context, *this);
}

}  // namespace mobius
