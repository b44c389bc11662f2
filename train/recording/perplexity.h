// The loss on text, in the units of language modelling.
#pragma once

#include <optional>
#include <string>

#include "data/task.h"

namespace mobius {

struct LanguageScore {
  double perplexity = 0;  ///< exp(loss)
  /// The loss in bits over the mean bytes of a token, comparable between tokenisers. It has no
  /// value if the bytes are not known.
  std::optional<double> bits_per_byte;
};

/// Converts a mean loss in nats per token on the test sequences of the task. Returns nothing if
/// these are not text.
std::optional<LanguageScore> language_score(double loss, const Task& task);

/// Returns ", perplexity 6.3456, 2.6660 bits per byte", to follow a loss, or "" without a score.
std::string language_words(const std::optional<LanguageScore>& score);

}  // namespace mobius
