#include "nn/attention/w2.h"

#include <cmath>

namespace mobius {

namespace {

constexpr double least_sigma = 1e-4;
constexpr double tau_eps = 1e-6;

// [B, G, n, 1] -> [B, G, n].
Variable per_key(const Variable& x) { return reshape(x, {x.size(0), x.size(1), x.size(2)}); }

// Softmax over <q_i, k_j> + key_bias_j.
AttentionCall biased_call(const HeadInputs& in, const Variable& q, const Variable& k,
                          const Variable& key_bias) {
  AttentionCall call = product_call(in);
  call.inputs.q = q;
  call.inputs.k = k;
  call.inputs.key_bias = key_bias;
  return call;
}

void require_scales(const Variable& tau, const Variable& k) {
  if (k.ndim() != 4 || tau.shape() != Shape{k.size(1), 1, 1}) {
    throw ShapeError("w2: tau {} for keys {}: expected [G, 1, 1] for [B, G, n_k, 2d]",
                     to_string(tau.shape()), to_string(k.shape()));
  }
}

// Repeats x[G, 1, 1] for every query: [B, H, n_q].
Variable for_every_query(const Variable& x, const Variable& q) {
  const std::int64_t n_heads = q.size(1), n_groups = x.size(0);
  const Variable by_head =
      reshape(expand(reshape(x, {n_groups, 1}), {n_groups, n_heads / n_groups}), {1, n_heads, 1});
  return expand(by_head, {q.size(0), n_heads, q.size(2)});
}

class W2Attention final : public FusedAttention {
 public:
  W2Attention(const AttentionContext& context, const W2Options& options)
      : FusedAttention(context, /*qk_parts=*/2) {
    const double tau = options.tau.value_or(2 * std::sqrt(static_cast<double>(head_dim())));
    raw_tau_ = register_parameter(
        "raw_tau", context.init.full({n_kv_heads()}, inverse_softplus(tau)), options.learn_tau);
  }

  void tell_parameters(DiagnosticsSink& sink) const override {
    sink.tell({"tau", softplus(raw_tau_).data().to_vector<double>()});
  }

 protected:
  AttentionCall call(const HeadInputs& in) const override {
    return w2_call(in, reshape(softplus(raw_tau_), {n_kv_heads(), 1, 1}), rope_base());
  }

 private:
  Variable raw_tau_;
};

class W2OverlapAttention final : public FusedAttention {
 public:
  explicit W2OverlapAttention(const AttentionContext& context)
      : FusedAttention(context, /*qk_parts=*/2) {}

 protected:
  AttentionCall call(const HeadInputs& in) const override {
    return w2_overlap_call(in, rope_base());
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

AttentionCall w2_call(const HeadInputs& in, const Variable& tau, std::optional<double> rope_base) {
  require_scales(tau, in.k);
  const GaussianPoints of_keys{.rope_base = rope_base.value_or(0), .least_sigma = least_sigma};
  GaussianPoints of_queries = of_keys;
  of_queries.offset = in.k.size(2) - in.q.size(2);
  const Variable x_q = gaussian_points(in.q, of_queries).points;
  const auto [x_k, squared_length] = gaussian_points(in.k, of_keys);
  const Variable inverse_tau = reciprocal(affine(tau, 1, tau_eps));  // [G, 1, 1]
  AttentionCall call = biased_call(in, x_q, x_k, per_key(squared_length * neg(inverse_tau)));
  call.inputs.sharpness = for_every_query(scale(inverse_tau, 2), in.q);
  return call;
}

AttentionCall w2_overlap_call(const HeadInputs& in, std::optional<double> rope_base) {
  const Gaussians q = gaussians_from(in.q), k = gaussians_from(in.k);
  const auto point = [&](const Gaussians& g, std::int64_t position) {
    const Variable m = g.mu * rsqrt(g.sigma);
    return rope_base ? rope(m, *rope_base, position) : m;
  };
  const Variable m_q = point(q, in.k.size(2) - in.q.size(2)), m_k = point(k, 0);
  const Variable volume_and_length = sum(log(k.sigma) + square(m_k), {-1}, /*keepdim=*/true);
  return biased_call(in, m_q, m_k, per_key(scale(volume_and_length, -0.5)));
}

void W2Options::describe(Schema& schema) {
  schema.field("tau", tau, "initial scale of the squared distances; null: 2 sqrt(head dimension)")
      .positive();
  schema.field("learn_tau", learn_tau, "whether tau is trained, one number a head");
}

std::shared_ptr<Attention> W2Options::make(const AttentionContext& context) const {
  return std::make_shared<W2Attention>(context, *this);
}

std::shared_ptr<Attention> W2OverlapOptions::make(const AttentionContext& context) const {
  return std::make_shared<W2OverlapAttention>(context);
}

}  // namespace mobius
