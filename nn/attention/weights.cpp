#include "nn/attention/weights.h"

#include <cmath>
#include <limits>
#include <span>

#include "core/error.h"

namespace mobius {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// [H, n_q + n_k - 1] -> [H, n_q, n_k].
Variable by_distance(const Variable& bias, std::int64_t n_q, std::int64_t n_k) {
  std::vector<std::int64_t> entry;
  for (std::int64_t i = 0; i < n_q; ++i)
    for (std::int64_t j = 0; j < n_k; ++j) entry.push_back(j - i + n_q - 1);
  const RowIndex entries("attention_weights", Tensor::from(entry, {n_q * n_k}), n_q + n_k - 1);
  const Variable picked = gather_rows(transpose(bias, 0, 1), entries.to(bias.device()));
  return reshape(transpose(picked, 0, 1), {bias.size(0), n_q, n_k});
}

// The arithmetic of a score map on matrices [B, H, n_q, n_k], to which numbers broadcast.
struct VariableMath {
  DType dtype;
  Device device;

  Variable constant(double x) const { return Variable(Tensor::full({}, x, dtype, device)); }
  double epsilon() const {
    return dtype == DType::f32 ? std::numeric_limits<float>::epsilon()
                               : std::numeric_limits<double>::epsilon();
  }
  static bool has(const Variable& number) { return number.defined(); }
  static Variable of_query(const Variable& number) { return number; }
  static Variable of_key(const Variable& number) { return number; }
  static Variable scale(const Variable& x, double factor) { return mobius::scale(x, factor); }
  static Variable log(const Variable& x) { return mobius::log(x); }
  static Variable max(const Variable& a, const Variable& b) { return maximum(a, b); }
};

// Returns the numbers of a call in shapes that broadcast to [B, H, n_q, n_k].
AttentionVariables broadcastable_numbers(const AttentionVariables& in, const VariableMath& m) {
  const std::int64_t n_heads = in.q.size(1), n_q = in.q.size(2), n_k = in.k.size(2);
  AttentionVariables numbers;
  scores::for_each_number(
      [&](const NumberKind& number, const Variable& x, Variable& out) {
        if (!x.defined()) {
          if (number.of == NumberOf::query) out = m.constant(number.absent);
        } else if (number.of == NumberOf::query) {
          out = reshape(x, {x.size(0), x.size(1), x.size(2), 1});
        } else if (number.of == NumberOf::key) {
          out = reshape(for_every_head(x, n_heads), {x.size(0), n_heads, 1, n_k});
        } else {
          out = by_distance(x, n_q, n_k);
        }
      },
      in, numbers);
  return numbers;
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
  const auto& [spec, in] = call;
  require_numbers_fit(spec, in);
  const std::int64_t n_q = in.q.size(2), n_k = in.k.size(2);
  const VariableMath m{in.q.dtype(), in.q.device()};
  const AttentionVariables numbers = broadcastable_numbers(in, m);
  const Tensor allowed = materialize_mask(spec.mask, n_q, n_k, in.q.device());
  Variable products = matmul(in.q, transpose(for_every_head(in.k, in.q.size(1)), -1, -2));
  return scores::with_score(spec, [&](auto map, auto is_softmax) {
    if constexpr (map.scales_queries) products = products * map.query_factor(m, numbers);
    if constexpr (is_softmax)
      return masked_softmax(map.logit(m, numbers, products), 1, {.mask = allowed});
    Variable log_w;
    if constexpr (map.has_weight)
      log_w = clamp(map.log_weight(m, numbers, products), -infinity, map.log_cap);
    else
      log_w = map.logit(m, numbers, products);
    return exp(where(allowed, log_w, m.constant(-infinity)));
  });
}

Variable masked_products(const Variable& q, const Variable& k, const AttentionMask& mask) {
  const Variable products = matmul(q, transpose(for_every_head(k, q.size(1)), -1, -2));
  const Variable zero(Tensor::zeros({}, q.dtype(), q.device()));
  return where(materialize_mask(mask, q.size(2), k.size(2), q.device()), products, zero);
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
