// The score of a model on some sequences.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace mobius {

/// Holds sums, not means: scores of parts add up to the score of the whole, however the labels are
/// spread over the parts.
struct Score {
  double loss_sum = 0;         ///< nats, over labelled positions
  std::int64_t n_labels = 0;   ///< labelled positions
  std::int64_t n_correct = 0;  ///< of the scored positions
  std::int64_t n_scored = 0;   ///< positions that count in the accuracy

  Score& operator+=(const Score& other) {
    loss_sum += other.loss_sum;
    n_labels += other.n_labels;
    n_correct += other.n_correct;
    n_scored += other.n_scored;
    return *this;
  }

  /// A score that is not finite is no result.
  bool is_finite() const { return std::isfinite(loss_sum); }
  /// The mean over the labelled positions; 0 without any.
  double loss() const { return n_labels == 0 ? 0 : loss_sum / static_cast<double>(n_labels); }
  /// The share of correct predictions; 0 without scored positions. It is NaN if the loss is not
  /// finite, because predictions made of such numbers mean nothing.
  double accuracy() const {
    if (!is_finite()) return std::numeric_limits<double>::quiet_NaN();
    return n_scored == 0 ? 0 : static_cast<double>(n_correct) / static_cast<double>(n_scored);
  }
};

/// The scores of groups of sequences, by name.
using NamedScores = std::vector<std::pair<std::string, Score>>;

/// The number that a score is judged by.
enum class Metric { loss, accuracy };

inline double value_of(Metric metric, const Score& score) {
  return metric == Metric::loss ? score.loss() : score.accuracy();
}
/// A smaller loss or a larger accuracy is better.
inline bool is_better(Metric metric, double a, double b) {
  return metric == Metric::loss ? a < b : a > b;
}

}  // namespace mobius
