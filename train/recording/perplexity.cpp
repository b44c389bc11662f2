#include "train/recording/perplexity.h"

#include <fmt/core.h>

#include <cmath>
#include <numbers>

#include "train/io/printable.h"

namespace mobius {

std::optional<LanguageScore> language_score(double loss, const Task& task) {
  if (!task.is_language()) return std::nullopt;
  LanguageScore score{.perplexity = std::exp(loss), .bits_per_byte = {}};
  if (const std::optional<double> bytes = task.bytes_per_token())
    score.bits_per_byte = loss / std::numbers::ln2 / *bytes;
  return score;
}

std::string language_words(const std::optional<LanguageScore>& score) {
  if (!score) return "";
  std::string words = fmt::format(", perplexity {:.4f}", printable(score->perplexity));
  if (score->bits_per_byte)
    words += fmt::format(", {:.4f} bits per byte", printable(*score->bits_per_byte));
  return words;
}

}  // namespace mobius
