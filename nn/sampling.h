// Drawing the next token.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/rng.h"

namespace mobius {

class Schema;

/// Which tokens may come next, and how their probabilities are changed: logits are divided by the
/// temperature, then all but the `top_k` likeliest are left out, then all but the likeliest ones
/// that together have at least the probability `top_p` (Holtzman et al. 2020, nucleus sampling).
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

/// A token drawn from them: one number from the generator, whatever the options.
std::int64_t sample_token(std::span<const double> logits, const SamplingOptions& options, Rng& rng);

}  // namespace mobius
