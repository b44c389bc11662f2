// The loss on text, in the units of language modelling.
#pragma once

#include <optional>
#include <string>

#include "data/task.h"

namespace mobius {

struct LanguageScore {
  double perplexity = 0;  ///< exp(loss): choices a token, as it were
  /// Loss in bits over the bytes that a token stands for: comparable between tokenisers. Nothing
  /// where the bytes are not known.
  std::optional<double> bits_per_byte;
};

/// What a mean loss, in nats a token, on the test sequences of the task says; nothing where these
/// are no text.
std::optional<LanguageScore> language_score(double loss, const Task& task);

/// ", perplexity 6.3456, 2.6660 bits per byte", to go on after a loss; "" for nothing.
std::string language_words(const std::optional<LanguageScore>& score);

}  // namespace mobius
