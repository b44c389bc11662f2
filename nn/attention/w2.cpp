#include "nn/attention/w2.h"

#include <cmath>

#include "core/options/validate.h"
#include "nn/attention/multi_head.h"

namespace mobius {

namespace {

constexpr double least_sigma = 1e-4;
constexpr double tau_eps = 1e-6;

// [B, G, n, 1] -> [B, G, n].
Variable per_key(const Variable& x) { return reshape(x, {x.size(0), x.size(1), x.size(2)}); }

AttentionCall biased_call(const Variable& q, const Variable& k, const Variable& v,
                          const Variable& key_bias, const AttentionMask& mask,
                          const AttentionExtras& extras) {
  return {.spec = {.mask = mask, .dropout = extras.dropout, .dropout_key = extras.dropout_key},
          .inputs = {
              .q = q, .k = k, .v = v, .key_bias = key_bias, .distance_bias = extras.distance_bias}};
}

void require_scales(const Variable& tau, const Variable& k) {
  if (k.ndim() != 4 || tau.shape() != Shape{k.size(1), 1, 1}) {
    throw ShapeError("w2: tau {} for keys {}: expected [G, 1, 1] for [B, G, n_k, 2d]",
                     to_string(tau.shape()), to_string(k.shape()));
  }
}

// x[G, 1, 1] for every query, [B, H, n_q].
Variable for_every_query(const Variable& x, const Variable& q) {
  const std::int64_t n_heads = q.size(1), n_groups = x.size(0);
  const Variable by_head =
      reshape(expand(reshape(x, {n_groups, 1}), {n_groups, n_heads / n_groups}), {1, n_heads, 1});
  return expand(by_head, {q.size(0), n_heads, q.size(2)});
}

AttentionCall w2_call(const Variable& q, const Variable& k, const Variable& v, const Variable& tau,
                      const AttentionMask& mask, std::optional<double> rope_base,
                      const AttentionExtras& extras) {
  require_scales(tau, k);
  const GaussianPoints of_keys{.rope_base = rope_base.value_or(0), .least_sigma = least_sigma};
  GaussianPoints of_queries = of_keys;
  of_queries.offset = k.size(2) - q.size(2);
  const Variable x_q = gaussian_points(q, of_queries).points;
  const auto [x_k, squared_length] = gaussian_points(k, of_keys);
  const Variable inverse_tau = reciprocal(affine(tau, 1, tau_eps));  // [G, 1, 1]
  const Variable key_bias = per_key(squared_length * neg(inverse_tau));
  AttentionCall call = biased_call(x_q, x_k, v, key_bias, mask, extras);
  call.inputs.sharpness = for_every_query(scale(inverse_tau, 2), q);
  return call;
}

AttentionCall w2_overlap_call(const Gaussians& q, const Gaussians& k, const Variable& v,
                              const AttentionMask& mask, std::optional<double> rope_base,
                              const AttentionExtras& extras) {
  const auto point = [&](const Gaussians& g, std::int64_t position) {
    const Variable m = g.mu * rsqrt(g.sigma);
    return rope_base ? rope(m, *rope_base, position) : m;
  };
  const Variable m_q = point(q, k.mu.size(2) - q.mu.size(2)), m_k = point(k, 0);
  const Variable volume_and_length = sum(log(k.sigma) + square(m_k), {-1}, /*keepdim=*/true);
  return biased_call(m_q, m_k, v, per_key(scale(volume_and_length, -0.5)), mask, extras);
}

// What both layers share: Gaussians in place of queries and keys.
class GaussianAttention : public MultiHeadAttention {
 public:
  explicit GaussianAttention(const AttentionContext& context)
      : MultiHeadAttention(context, /*qk_parts=*/2) {
    if (context.positions == Positions::rope) rope_base_ = context.rope_base;
  }

 protected:
  std::optional<double> rope_base() const { return rope_base_; }

 private:
  std::optional<double> rope_base_;
};

class W2Attention final : public GaussianAttention {
 public:
  W2Attention(const AttentionContext& context, const W2Options& options)
      : GaussianAttention(context) {
    const double tau = options.tau.value_or(2 * std::sqrt(static_cast<double>(head_dim())));
    const Tensor initial = context.init.full({n_kv_heads()}, inverse_softplus(tau));
    raw_tau_ = options.learn_tau ? register_parameter("raw_tau", initial)
                                 : Variable(register_buffer("raw_tau", initial));
  }

  AttentionDiagnostics diagnostics() const override {
    AttentionDiagnostics diagnostics = MultiHeadAttention::diagnostics();
    diagnostics.tau = unary({UnaryOp::softplus}, raw_tau_.data()).to_vector<double>();
    return diagnostics;
  }

 protected:
  Variable attend(const HeadInputs& in) override {
    return w2_attention(in.q, in.k, in.v, tau(), in.mask, rope_base(), in.extras);
  }
  Variable weights(const HeadInputs& in) override {
    return w2_weights(in.q, in.k, tau(), in.mask, rope_base(), in.extras);
  }

 private:
  Variable tau() const { return reshape(softplus(raw_tau_), {n_kv_heads(), 1, 1}); }

  Variable raw_tau_;
};

class W2OverlapAttention final : public GaussianAttention {
 public:
  using GaussianAttention::GaussianAttention;

 protected:
  Variable attend(const HeadInputs& in) override {
    return w2_overlap_attention(in.q, in.k, in.v, in.mask, rope_base(), in.extras);
  }
  Variable weights(const HeadInputs& in) override {
    return w2_overlap_weights(in.q, in.k, in.mask, rope_base(), in.extras);
  }
};

}  // namespace

Gaussians gaussians_from(const Variable& mu_and_raw) {
  const std::int64_t d = mu_and_raw.size(-1) / 2;
  const std::vector<Variable> parts = split(mu_and_raw, {d, d}, -1);
  return {.mu = parts[0], .sigma = affine(softplus(parts[1]), 1, least_sigma)};
}

Variable squared_w2_distance(const Gaussians& q, const Gaussians& k) {
  const auto squared_differences = [&](const Variable& a, const Variable& b) {
    const Variable keys = for_every_head(b, a.size(1));
    return sum(square(reshape(a, {a.size(0), a.size(1), a.size(2), 1, a.size(3)}) -
                      reshape(keys, {keys.size(0), keys.size(1), 1, keys.size(2), keys.size(3)})),
               {-1});
  };
  return squared_differences(q.mu, k.mu) + squared_differences(q.sigma, k.sigma);
}

Variable w2_attention(const Variable& q, const Variable& k, const Variable& v, const Variable& tau,
                      const AttentionMask& mask, std::optional<double> rope_base,
                      const AttentionExtras& extras) {
  return attention(w2_call(q, k, v, tau, mask, rope_base, extras));
}

Variable w2_weights(const Variable& q, const Variable& k, const Variable& tau,
                    const AttentionMask& mask, std::optional<double> rope_base,
                    const AttentionExtras& extras) {
  return attention_weights(w2_call(q, k, {}, tau, mask, rope_base, extras));
}

Variable w2_overlap_attention(const Variable& q, const Variable& k, const Variable& v,
                              const AttentionMask& mask, std::optional<double> rope_base,
                              const AttentionExtras& extras) {
  return attention(
      w2_overlap_call(gaussians_from(q), gaussians_from(k), v, mask, rope_base, extras));
}

Variable w2_overlap_weights(const Variable& q, const Variable& k, const AttentionMask& mask,
                            std::optional<double> rope_base, const AttentionExtras& extras) {
  return attention_weights(
      w2_overlap_call(gaussians_from(q), gaussians_from(k), {}, mask, rope_base, extras));
}

void W2Options::describe(Schema& schema) {
  schema.field("tau", tau, "initial scale of the squared distances; null: 2 sqrt(head dimension)")
      .positive();
  schema.field("learn_tau", learn_tau, "whether tau is trained, one number a head");
}

std::shared_ptr<Attention> W2Options::build(const AttentionContext& context) const {
  validate_option_values(*this, "w2");
  return std::make_shared<W2Attention>(context, *this);
}

std::shared_ptr<Attention> W2OverlapOptions::build(const AttentionContext& context) const {
  return std::make_shared<W2OverlapAttention>(context);
}

}  // namespace mobius
