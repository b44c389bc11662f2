#include "nn/attention/conformal/conformal_hierarchical.h"

#include <limits>

namespace mobius {

namespace {

constexpr const char* why_keys_look_ahead =
    "keys are landmarks taken from the whole sequence, so that a query would learn from later "
    "positions; random and learned do not look ahead";

void require_hierarchy(const HeadInputs& in, ConformalNormalize normalize, std::int64_t window) {
  if (!in.mask.is_simple() || !in.mask.causal) {
    throw Error(
        "conformal_hierarchical: expected a causal mask alone, got {}: its sums over far keys are "
        "carried from query to query and cannot leave out single pairs",
        !in.mask.is_simple() ? (in.mask.window > 0 ? "a window" : "a given mask") : "none");
  }
  if (normalize == ConformalNormalize::empirical)
    throw Error("conformal_hierarchical: there is no empirical normalisation of a far field");
  if (window < 1) throw Error("conformal_hierarchical: expected a window above 0, got {}", window);
}

// What turns a kernel of unit mean into weights; broadcastable to [B, H, n_q, 1]. A query that sees
// no key has no weight to divide.
Variable far_factor(const Radius& radius, const Tensor& counts, const ConformalKernel& kernel) {
  if (!counts.defined()) return exp(log_normalizer(radius, kernel));
  const Tensor at_least_one =
      unary({UnaryOp::clamp, 1, std::numeric_limits<double>::infinity()}, counts);
  return Variable(unary({UnaryOp::reciprocal}, at_least_one).reshape({counts.size(-1), 1}));
}

// Sums of products of features with moments: far_q[B, H, 1, M], moments[B, G, M, d] ->
// [B, H, 1, d]. The query heads of a group are the rows of one product.
Variable apply_moments(const Variable& far_q, const Tensor& moments) {
  const std::int64_t batch = far_q.size(0), n_heads = far_q.size(1), n_groups = moments.size(1);
  const Variable rows = reshape(far_q, {batch, n_groups, n_heads / n_groups, far_q.size(3)});
  return reshape(matmul(rows, Variable(moments)), {batch, n_heads, 1, moments.size(3)});
}

// Of the queries and keys, the i-th.
BallPoints position_of(const BallPoints& points, std::int64_t i) {
  const auto at = [i](const Variable& x) { return slice(x, 2, i, i + 1); };
  return {.radius = {at(points.radius.r), at(points.radius.one_minus_r)},
          .qhat = at(points.qhat),
          .zeta = at(points.zeta)};
}

class ConformalHierarchical final : public ConformalLayer {
 public:
  ConformalHierarchical(const AttentionContext& context,
                        const ConformalHierarchicalOptions& options)
      : ConformalLayer(context, options),
        window_(options.window),
        looks_ahead_(options.far.landmark_source == LandmarkSource::keys),
        far_(register_module("far", make_far_field_builder(options.far, kernel(), options.alpha,
                                                           n_kv_heads(), context.init.at("far")))) {
    refuse_weight_dropout(context);
  }

  std::unique_ptr<AttentionCache> make_cache() const override {
    if (looks_ahead_) throw Error("conformal_hierarchical: no generation: {}", why_keys_look_ahead);
    const NoGradGuard no_grad;
    return std::make_unique<ConformalTreeCache>(far_->build(/*zeta=*/{}),
                                                KVTreeOptions{.window = window_, .history = 0});
  }

 protected:
  Variable attend(const HeadInputs& in) const override { return attention(call(in)); }
  Variable weights(const HeadInputs& in) const override { return attention_weights(call(in)); }
  Variable attend_cached(HeadInputs in, AttentionCache& cache) const override {
    return read_on(dynamic_cast<ConformalTreeCache&>(cache), embed(in), in.v, kernel(),
                   normalize());
  }

 private:
  HierarchicalCall call(const HeadInputs& in) const {
    const BallPoints points = embed(in);
    const Variable all = in.all_keys.defined() ? polar(in.all_keys).direction : points.zeta;
    return hierarchical_call(in, points, *far_->build(all), kernel(), normalize(), window_);
  }

  BallPoints embed(const HeadInputs& in) const {
    return embed_in_ball(in.q, in.k, alpha(), kernel().s);
  }

  std::int64_t window_;
  bool looks_ahead_;
  std::shared_ptr<FarFieldBuilder> far_;
};

}  // namespace

HierarchicalCall hierarchical_call(const HeadInputs& in, const BallPoints& points,
                                   const FarField& far_field, const ConformalKernel& kernel,
                                   ConformalNormalize normalize, std::int64_t window) {
  require_hierarchy(in, normalize, window);
  const bool is_analytic = normalize == ConformalNormalize::analytic;
  const Tensor counts = is_analytic || in.sink != nullptr ? visible_counts(in) : Tensor();
  HierarchicalCall call{.near = conformal_call(in, points, counts, kernel, normalize),
                        .window = window};
  call.near.spec.mask.window = window;

  if (points.zeta.size(2) <= window) return call;
  call.far_q = far_field.query_features(points) *
               far_factor(points.radius, is_analytic ? counts : Tensor(), kernel);
  call.far_k = far_field.key_features(points.zeta);
  return call;
}

Variable attend_at(ConformalTreeCache& cache, std::int64_t position, const BallPoints& query,
                   const ConformalKernel& kernel, ConformalNormalize normalize) {
  const NoGradGuard no_grad;
  const auto [near_zeta, near_v] = cache.tree().near(position);
  const BallPoints points{.radius = query.radius, .qhat = query.qhat, .zeta = Variable(near_zeta)};
  Tensor count;
  if (normalize == ConformalNormalize::analytic) {
    count = Tensor::full({1}, static_cast<double>(position + 1), near_v.dtype(), near_v.device());
  }
  const HeadInputs in{.v = Variable(near_v)};
  const Variable near = attention(conformal_call(in, points, count, kernel, normalize));
  if (position < cache.tree().options().window) return near;
  const Variable far_q =
      cache.far_field().query_features(points) * far_factor(points.radius, count, kernel);
  return near + apply_moments(far_q, cache.tree().moments(position));
}

// Reading from the start takes the training form; reading on goes position by position.
Variable read_on(ConformalTreeCache& cache, const BallPoints& points, const Variable& v,
                 const ConformalKernel& kernel, ConformalNormalize normalize) {
  const NoGradGuard no_grad;
  const std::int64_t n_new = points.qhat.size(2);
  if (cache.length() == 0 && n_new > 1) {
    const HeadInputs in{.q = points.qhat, .k = points.zeta, .v = v, .mask = {.causal = true}};
    const Variable out = attention(hierarchical_call(in, points, cache.far_field(), kernel,
                                                     normalize, cache.tree().options().window));
    cache.append(points.zeta, v);
    return out;
  }
  std::vector<Variable> outs;
  for (std::int64_t i = 0; i < n_new; ++i) {
    const BallPoints point = position_of(points, i);
    cache.append(point.zeta, slice(v, 2, i, i + 1));
    outs.push_back(attend_at(cache, cache.length() - 1, point, kernel, normalize));
  }
  return outs.size() == 1 ? outs[0] : concat(outs, 2);
}

Variable attention(const HierarchicalCall& call) {
  const Variable near = attention(call.near);
  if (!call.far_q.defined()) return near;
  return linear_attention_sums(call.far_q, call.far_k, call.near.inputs.v, /*causal=*/true,
                               /*lag=*/call.window, /*initial=*/near);
}

Variable attention_weights(const HierarchicalCall& call) {
  const Variable near = attention_weights(call.near);
  if (!call.far_q.defined()) return near;
  const Tensor is_near =
      materialize_mask(call.near.spec.mask, near.size(2), near.size(3), near.device());
  return where(is_near, near, masked_products(call.far_q, call.far_k, {.causal = true}));
}

void ConformalHierarchicalOptions::describe(Schema& schema) {
  ConformalOptions::describe(schema);
  schema.field("window", window, "newest keys whose weights are exact").positive();
  far.describe(schema);
  schema.check("normalize", [this] {
    if (normalize == ConformalNormalize::empirical)
      throw ConfigError(
          "empirical does not go with it: the sum of a query's weights would have to divide far "
          "weights that are never formed, and their approximation need not be positive");
  });
}

void ConformalHierarchicalOptions::require_trainable() const {
  if (far.landmark_source == LandmarkSource::keys)
    throw ConfigError("landmark_source: keys cannot be trained: {}", why_keys_look_ahead);
}

std::shared_ptr<Attention> ConformalHierarchicalOptions::make(
    const AttentionContext& context) const {
  return std::make_shared<ConformalHierarchical>(context, *this);
}

}  // namespace mobius
