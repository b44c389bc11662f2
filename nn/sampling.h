// Drawing the next token.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/rng.h"

namespace mobius {

class Schema;

/// How the next token is drawn: logits are divided by the temperature, then only the `top_k`
/// likeliest tokens are kept, then only the likeliest ones that together have at least the
/// probability `top_p` (Holtzman et al. 2020, nucleus sampling).
struct SamplingOptions {
  double temperature = 1;  // >= 0; 0: always the likeliest token, the smaller of equals
  std::optional<std::int64_t> top_k = {};  // >= 1
  std::optional<double> top_p = {};        // in (0, 1]

  void describe(Schema& schema);
};

/// The probability of every token under the options; 0 for those left out. Of equal logits at the
/// border of top_k or top_p, those of smaller tokens stay. Throws
/// ConfigError if an option is out of range, Error if no logit is finite.
std::vector<double> next_token_probabilities(std::span<const double> logits,
                                             const SamplingOptions& options);

/// Draws a token from these probabilities with one number from the generator.
std::int64_t sample_token(std::span<const double> logits, const SamplingOptions& options, Rng& rng);

}  // namespace mobius
