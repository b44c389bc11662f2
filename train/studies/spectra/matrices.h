// The attention matrices of all variants on the same queries and keys.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/options/schema.h"
#include "nn/attention/conformal/conformal.h"

namespace mobius {

/// Queries and keys, [1, 1, n, d], and what they are.
struct Tokens {
  std::string name, description;
  Tensor q, k;
};
HeadInputs inputs_of(const Tokens& tokens, bool is_causal);

/// A variant, and its weights of some tokens, [1, 1, n, n].
struct NamedWeights {
  std::string name;
  std::function<Tensor(const HeadInputs&)> weights;
  bool is_causal_only = false;
};

struct SpectrumSettings {
  std::int64_t n = 256;
  std::int64_t d = 64;
  std::vector<double> alphas = {1, 4, 16, 64};
  std::int64_t window = 32;
  std::int64_t topk = 16;
  std::int64_t n_features = 64;
  std::int64_t n_landmarks = 48;
  double correlation = 0.95;
  std::int64_t subspace = 8;

  void describe(Schema& schema);
};

/// Independent tokens, correlated ones, and tokens that do not fill the head. All queries and keys
/// have elements of variance 1, so that they are equally long on average.
std::vector<Tokens> tokens_of(const SpectrumSettings& settings, std::uint64_t seed);

std::vector<NamedWeights> variants_of(const SpectrumSettings& settings, std::uint64_t seed);
/// "conformal, alpha 4", or with the name of another weight than newton.
NamedWeights conformal_variant(std::int64_t d, ConformalWeight weight, double alpha);

}  // namespace mobius
