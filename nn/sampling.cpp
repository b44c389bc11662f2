#include "nn/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/options/validate.h"

namespace mobius {

namespace {

// Returns the tokens by decreasing probability, the smaller of equal ones first.
std::vector<std::size_t> by_likelihood(std::span<const double> logits) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  });
  return order;
}

// Returns e^((logit - largest) / temperature); at temperature 0, 1 only for the first token.
double unnormalized(double logit, double largest, double temperature, bool is_first) {
  if (temperature == 0) return is_first ? 1 : 0;
  return std::exp((logit - largest) / temperature);
}

}  // namespace

void SamplingOptions::describe(Schema& schema) {
  schema.field("temperature", temperature, "divides the logits; 0: always the likeliest token")
      .non_negative();
  schema.field("top_k", top_k, "draw from so many of the likeliest tokens alone")
      .positive()
      .unbounded();
  schema.field("top_p", top_p, "draw from the likeliest tokens that have this probability together")
      .above(0)
      .at_most(1);
}

std::vector<double> next_token_probabilities(std::span<const double> logits,
                                             const SamplingOptions& options) {
  validate_options(options, "sampling");
  if (std::any_of(logits.begin(), logits.end(), [](double x) { return std::isnan(x); }))
    throw Error("sampling: a logit is not a number");
  const std::vector<std::size_t> order = by_likelihood(logits);
  if (order.empty() || !std::isfinite(logits[order[0]]))
    throw Error("sampling: expected a finite logit, got none");

  std::size_t kept = order.size();
  if (options.top_k) kept = std::min(kept, static_cast<std::size_t>(*options.top_k));
  std::vector<double> probabilities(logits.size(), 0);
  double total = 0;
  for (std::size_t rank = 0; rank < kept; ++rank) {
    const double weight =
        unnormalized(logits[order[rank]], logits[order[0]], options.temperature, rank == 0);
    probabilities[order[rank]] = weight;
    total += weight;
  }
  if (options.top_p) {
    double cumulated = 0;
    for (std::size_t rank = 0; rank < kept; ++rank) {
      double& weight = probabilities[order[rank]];
      if (cumulated >= *options.top_p * total) weight = 0;
      cumulated += weight;
    }
    total = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  }
  for (double& probability : probabilities) probability /= total;
  return probabilities;
}

std::int64_t sample_token(std::span<const double> logits, const SamplingOptions& options,
                          Rng& rng) {
  const std::vector<double> probabilities = next_token_probabilities(logits, options);
  double left = rng.uniform();
  std::size_t last = 0;  // the last possible one, where rounding leaves something over
  for (std::size_t token = 0; token < probabilities.size(); ++token) {
    if (probabilities[token] == 0) continue;
    last = token;
    left -= probabilities[token];
    if (left < 0) break;
  }
  return static_cast<std::int64_t>(last);
}

}  // namespace mobius
