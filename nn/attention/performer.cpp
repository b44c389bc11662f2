#include "nn/attention/performer.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mobius {

namespace {

// e^60 leaves a factor of e^28 for sums over keys, values and gradients in f32.
constexpr double largest_key_exponent = 60;

// omega_a . x', [..., m].
Variable project(const Variable& x, const Tensor& omega) {
  const double shrink = std::pow(static_cast<double>(x.size(-1)), -0.25);
  return matmul(x, Variable(scale(omega, shrink).transpose(0, 1)));
}

double inverse_root(std::int64_t n) { return 1 / std::sqrt(static_cast<double>(n)); }

class PerformerAttention final : public FeatureAttention {
 public:
  PerformerAttention(const AttentionContext& context, const PerformerOptions& options)
      : FeatureAttention(context) {
    RngKey key = context.init.key("omega");
    if (options.feature_seed) key.seed = static_cast<std::uint64_t>(*options.feature_seed);
    const Initializer& init = context.init;
    omega_ = register_buffer("omega", init.has_values()
                                          ? orthogonal_gaussian(options.n_features, head_dim(), key,
                                                                init.dtype(), init.device())
                                          : init.zeros({options.n_features, head_dim()}));
  }

 protected:
  FeatureCall call(const HeadInputs& in) const override { return performer_call(in, omega_); }

 private:
  Tensor omega_;
};

}  // namespace

Tensor orthogonal_gaussian(std::int64_t m, std::int64_t d, RngKey key, DType dtype, Device device) {
  if (m < 1 || d < 1)
    throw ShapeError("performer: expected features [m, d] with m, d > 0, got [{}, {}]", m, d);
  const auto stream = [&](const char* purpose, std::int64_t block) {
    return RngKey{key.seed, stream_id(purpose, key.stream, static_cast<std::uint64_t>(block))};
  };
  std::vector<Tensor> blocks;
  for (std::int64_t first = 0; first < m; first += d) {
    const Tensor directions =
        random_orthogonal(d, d, stream("performer directions", first), DType::f64);
    const Tensor gaussian =
        random_normal({d, d}, 0, 1, stream("performer lengths", first), DType::f64);
    const Tensor lengths =
        unary({UnaryOp::sqrt}, sum(unary({UnaryOp::square}, gaussian), {-1}, /*keepdim=*/true));
    blocks.push_back(mul(directions, lengths).slice(0, 0, std::min(d, m - first)));
  }
  const std::vector<double> values = concat(blocks, 0).to_vector<double>();
  return Tensor::from(values, {m, d}, device).to(dtype);
}

Variable performer_query_features(const Variable& q, const Tensor& omega, double offset) {
  const Variable projected = project(q, omega);
  const Variable largest = max(projected, -1, /*keepdim=*/true);
  return affine(exp(projected - largest), inverse_root(omega.size(0)), offset);
}

Variable performer_key_features(const Variable& k, const Tensor& omega, double offset) {
  const Variable half_square =
      scale(sum(square(k), {-1}, /*keepdim=*/true), 0.5 * inverse_root(k.size(-1)));
  const Variable exponent = clamp(project(k, omega) - half_square,
                                  -std::numeric_limits<double>::infinity(), largest_key_exponent);
  return affine(exp(exponent), inverse_root(omega.size(0)), offset);
}

FeatureCall performer_call(const HeadInputs& in, const Tensor& omega,
                           const PerformerOffsets& offsets) {
  return {performer_query_features(in.q, omega, offsets.feature),
          performer_key_features(in.k, omega, offsets.feature), in.v, in.mask, offsets.denominator};
}

void PerformerOptions::describe(Schema& schema) {
  schema.field("n_features", n_features, "random features of a head").positive();
  schema
      .field("feature_seed", feature_seed,
             "seed of the random features; null: that of the initial values")
      .non_negative()
      .unbounded();
}

std::shared_ptr<Attention> PerformerOptions::make(const AttentionContext& context) const {
  return std::make_shared<PerformerAttention>(context, *this);
}

}  // namespace mobius
