#include "train/studies/recall/by_distance.h"

#include <algorithm>

#include "core/labels.h"

namespace mobius {

std::vector<DistanceScore> recall_by_distance(const LanguageModel& model, const Batch& batch,
                                              std::int64_t width) {
  const NoGradGuard no_grad;
  const std::vector<float> logits = model.logits(batch.inputs, {}).data().to_vector<float>();
  const std::vector<std::int32_t> tokens = batch.inputs.to_vector<std::int32_t>(),
                                  labels = batch.labels.to_vector<std::int32_t>();
  const std::int64_t n = batch.inputs.size(1), vocab = model.vocab_size();
  std::vector<DistanceScore> scores;
  for (std::int64_t from = 0; from < n; from += width) scores.push_back({from, from + width});
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    if (labels[at] == ignored_label) continue;
    const auto row = tokens.begin() + static_cast<std::int64_t>(at) / n * n;
    const std::int64_t position = static_cast<std::int64_t>(at) % n;
    const std::int64_t distance = position - (std::find(row, row + n, tokens[at]) - row);
    const auto choices = logits.begin() + static_cast<std::int64_t>(at) * vocab;
    DistanceScore& score = scores[static_cast<std::size_t>(distance / width)];
    ++score.n_scored;
    score.n_correct += std::max_element(choices, choices + vocab) - choices == labels[at];
  }
  std::erase_if(scores, [](const DistanceScore& score) { return score.n_scored == 0; });
  return scores;
}

}  // namespace mobius
