#include "nn/attention/weights.h"

#include <cmath>
#include <limits>
#include <span>

#include "core/error.h"
#include "core/ops/attention.h"

namespace mobius {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// [B, H, n] -> [B, H, n, 1].
Variable as_column(const Variable& x) { return reshape(x, {x.size(0), x.size(1), x.size(2), 1}); }

// [H, n_q + n_k - 1] -> [H, n_q, n_k].
Variable by_distance(const Variable& bias, std::int64_t n_q, std::int64_t n_k) {
  std::vector<std::int64_t> entry;
  for (std::int64_t i = 0; i < n_q; ++i)
    for (std::int64_t j = 0; j < n_k; ++j) entry.push_back(j - i + n_q - 1);
  const Variable picked =
      gather_rows(transpose(bias, 0, 1), Tensor::from(entry, {n_q * n_k}, bias.device()));
  return reshape(transpose(picked, 0, 1), {bias.size(0), n_q, n_k});
}

// log of the unnormalised weights, [B, H, n_q, n_k].
Variable log_weights(const AttentionCall& call) {
  const auto& [spec, in] = call;
  const std::int64_t n_heads = in.q.size(1), n_q = in.q.size(2), n_k = in.k.size(2);
  const Variable products = matmul(in.q, transpose(for_every_head(in.k, n_heads), -1, -2));
  if (spec.score == ScoreMap::conformal) {
    const Variable log_w =
        scale(log(affine(as_column(in.sharpness) * products, -1, 1)), -spec.exponent);
    return in.log_factor.defined() ? log_w + as_column(in.log_factor) : log_w;
  }
  Variable scores = scale(products, spec.scale);
  if (in.sharpness.defined()) scores = scores * as_column(in.sharpness);
  if (in.key_bias.defined()) {
    const Variable bias = for_every_head(in.key_bias, n_heads);
    scores = scores + reshape(bias, {bias.size(0), n_heads, 1, n_k});
  }
  if (in.distance_bias.defined()) scores = scores + by_distance(in.distance_bias, n_q, n_k);
  return scores;
}

Tensor data_of(const Variable& x) { return x.defined() ? x.data() : Tensor(); }

AttentionInputs data_of(const AttentionVariables& in) {
  return {data_of(in.q),
          data_of(in.k),
          data_of(in.v),
          data_of(in.key_bias),
          data_of(in.distance_bias),
          data_of(in.sharpness),
          data_of(in.log_factor)};
}

double entropy(std::span<const double> weights, double sum) {
  double entropy = 0;
  for (const double weight : weights) {
    const double share = weight / sum;
    if (share > 0) entropy -= share * std::log(share);
  }
  return entropy;
}

}  // namespace

Variable for_every_head(const Variable& x, std::int64_t n_heads) {
  if (x.size(1) == n_heads) return x;
  if (x.size(1) < 1 || n_heads % x.size(1) != 0) {
    throw ShapeError("attention: {} heads cannot share the {} of {}", n_heads, x.size(1),
                     to_string(x.shape()));
  }
  Shape split = x.shape(), repeated = x.shape(), merged = x.shape();
  split.insert(split.begin() + 2, 1);
  repeated.insert(repeated.begin() + 2, n_heads / x.size(1));
  merged[1] = n_heads;
  return reshape(expand(reshape(x, split), repeated), merged);
}

Variable attention_weights(const AttentionCall& call) {
  const AttentionSpec& spec = call.spec;
  if (spec.threshold.value.defined())
    throw Error("attention_weights: expected the selected keys as a mask, got a threshold");
  require_numbers_fit(spec, data_of(call.inputs));
  const Variable log_w = log_weights(call);
  const Tensor allowed =
      materialize_mask(spec.mask, log_w.size(-2), log_w.size(-1), log_w.device());
  if (spec.normalizer == WeightNormalizer::softmax)
    return masked_softmax(log_w, 1, {.mask = allowed});
  const double cap = spec.score == ScoreMap::conformal ? spec.log_cap : infinity;
  const Variable nothing(Tensor::full({}, -infinity, log_w.dtype(), log_w.device()));
  return exp(where(allowed, clamp(log_w, -infinity, cap), nothing));
}

Variable feature_weights(const Variable& q, const Variable& k, const AttentionMask& mask,
                         double eps) {
  const Variable products = matmul(q, transpose(for_every_head(k, q.size(1)), -1, -2));
  const Variable zero(Tensor::zeros({}, q.dtype(), q.device()));
  const Variable kept =
      where(materialize_mask(mask, q.size(2), k.size(2), q.device()), products, zero);
  return kept / affine(sum(kept, {-1}, /*keepdim=*/true), 1, eps);
}

Variable apply_weights(const Variable& weights, const Variable& v) {
  return matmul(weights, for_every_head(v, weights.size(1)));
}

void MeanEntropy::add(const Tensor& weights) {
  const std::vector<double> values = weights.to_vector<double>();
  const auto n_q = static_cast<std::size_t>(weights.size(2)),
             n_k = static_cast<std::size_t>(weights.size(3));
  for (std::size_t row = 0; row * n_k < values.size(); ++row) {
    const std::span<const double> of_query = std::span(values).subspan(row * n_k, n_k);
    double sum = 0;
    for (const double weight : of_query) sum += weight;
    if (sum == 0) continue;
    const std::size_t head = row / n_q % sums_.size();
    sums_[head] += entropy(of_query, sum);
    ++counts_[head];
  }
}

std::vector<double> MeanEntropy::value() const {
  std::vector<double> means = sums_;
  for (std::size_t head = 0; head < means.size(); ++head) {
    means[head] /= std::max(counts_[head], 1.0);
  }
  return means;
}

}  // namespace mobius
