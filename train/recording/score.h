// How well a model does on some sequences.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace mobius {

/// Sums, not means: scores of parts add up to the score of the whole, however the labels are spread
/// over the parts.
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

  /// Where it is not, the score is no result.
  bool is_finite() const { return std::isfinite(loss_sum); }
  /// Mean over the labelled positions; 0 where there are none.
  double loss() const { return n_labels == 0 ? 0 : loss_sum / static_cast<double>(n_labels); }
  /// Share of the scored positions; 0 where there are none. Not a number where the loss is not
  /// finite: predictions made of such numbers mean nothing, however many are right.
  double accuracy() const {
    if (!is_finite()) return std::numeric_limits<double>::quiet_NaN();
    return n_scored == 0 ? 0 : static_cast<double>(n_correct) / static_cast<double>(n_scored);
  }
};

/// Scores of groups of sequences, by their names.
using NamedScores = std::vector<std::pair<std::string, Score>>;

/// What a score is judged by.
enum class Metric { loss, accuracy };

inline double value_of(Metric metric, const Score& score) {
  return metric == Metric::loss ? score.loss() : score.accuracy();
}
/// Whether `a` is better than `b`: a smaller loss, a larger accuracy.
inline bool is_better(Metric metric, double a, double b) {
  return metric == Metric::loss ? a < b : a > b;
}

}  // namespace mobius
