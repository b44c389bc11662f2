// Associative recall by the distance between a query and the pair that answers it.
#pragma once

#include <vector>

#include "data/task.h"
#include "nn/language_model.h"
#include "train/recording/score.h"

namespace mobius {

/// The scored positions whose key stands `from` to `to` - 1 positions back.
struct DistanceScore {
  std::int64_t from, to;
  std::int64_t n_correct = 0, n_scored = 0;

  double accuracy() const { return static_cast<double>(n_correct) / static_cast<double>(n_scored); }
};

/// Predicts the labelled positions of mqar sequences (data/mqar.h). The distance of a position is
/// that to the first occurrence of its token. Leaves out distances without a label.
std::vector<DistanceScore> recall_by_distance(const LanguageModel& model, const Batch& batch,
                                              std::int64_t width);

}  // namespace mobius
