// Reports what a run does, on the terminal and in the files of its folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/comm/communicator.h"
#include "train/checkpoint/training_record.h"
#include "train/config/config.h"
#include "train/recording/metrics.h"
#include "train/recording/tensorboard.h"
#include "train/run/evaluation.h"
#include "train/run/experiment.h"
#include "train/run/progress.h"
#include "train/run/run_folder.h"

namespace mobius {

/// The numbers of a training step.
struct StepReport {
  Score score;             ///< of the batch
  NamedNumbers summaries;  ///< of the layers, if a line of metrics is due
  double learning_rate = 0;
  double grad_norm = 0;  ///< before clipping
  double seconds = 0;
  std::int64_t tokens = 0;  ///< of all ranks
};

/// Writes metrics.jsonl, TensorBoard's events, the attention maps and summary.json, and shows the
/// progress. Only that of the root writes files.
class Recorder {
 public:
  /// The arguments must outlive it.
  Recorder(Config& config, const Experiment& experiment, const RunFolder& folder,
           Progress& progress, const Communicator& communicator);

  /// Writes config.yaml and continues the files of a run that has done `step` steps and was last
  /// tested after `tested_step`.
  void begin(std::int64_t step, std::int64_t tested_step);
  /// Says what is trained on which data, and warns.
  void announce() const;
  /// Shows a step and writes a line if one is due.
  void record_step(std::int64_t step, const StepReport& report);
  /// Writes a line on the score of the test sequences after `step`.
  void record_test(std::int64_t step, const Evaluation& evaluation);
  /// Writes the result of the run and, if it is complete, the attention maps. `test` is its last
  /// finite evaluation.
  RunSummary finish(RunStatus status, std::int64_t step, const TrainingRecord& record,
                    const std::optional<Evaluation>& test) const;

 private:
  using Clock = std::chrono::steady_clock;

  void log(const MetricsLine& line);

  Config& config_;
  const Experiment& experiment_;
  const RunFolder& folder_;
  Progress& progress_;
  const bool is_root_;
  const int ranks_;
  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<EventLog> events_;  // if they are asked for

  // Since the last line of metrics, and since this process began.
  double logged_seconds_ = 0;
  std::int64_t logged_tokens_ = 0;
  std::int64_t first_step_ = 0;
  Clock::time_point started_ = Clock::now();
};

}  // namespace mobius
