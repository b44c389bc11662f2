// What a run has measured so far, and the state of it that is kept as the best.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "train/checkpoint/checkpoint.h"

namespace mobius {

/// The state that scored best on the test sequences.
struct BestState {
  std::int64_t step;
  double value;  ///< of checkpoint.metric
  bool operator==(const BestState&) const = default;
};

/// What a run has measured so far. Checkpoints carry it, so that a resumed run reports what one
/// without interruption does.
struct TrainingRecord {
  double train_seconds = 0;
  std::int64_t tokens = 0;
  std::int64_t evaluated_step = 0;  ///< of the last evaluation; 0: none yet
  std::optional<BestState> best;
  std::optional<std::int64_t> steps_to_99;

  std::map<std::string, double> to_map() const;
  /// Reads the record of the checkpoint `path`. Throws Error, naming it, if the record is
  /// impossible.
  static TrainingRecord of(const CheckpointHeader& header, const std::filesystem::path& path);
  /// Throws Error if a count is not one.
  static TrainingRecord from_map(const std::map<std::string, double>& values);
};

}  // namespace mobius
