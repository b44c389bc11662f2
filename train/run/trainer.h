// Trains the model that a configuration describes, and keeps the run's folder.
#pragma once

#include <cstdint>
#include <optional>

#include "core/comm/communicator.h"
#include "train/config/config.h"
#include "train/io/stop_signal.h"
#include "train/optim/finite.h"
#include "train/optim/gradient_sum.h"
#include "train/run/checkpoint_keeper.h"
#include "train/run/evaluation.h"
#include "train/run/experiment.h"
#include "train/run/progress.h"
#include "train/run/recorder.h"
#include "train/run/run_folder.h"
#include "train/run/start.h"
#include "train/run/step.h"

namespace mobius {

/// One run, from its first step or from a checkpoint. Every rank trains on its share of every
/// batch; only the root writes.
class Trainer {
 public:
  /// Writes config.yaml and continues metrics.jsonl in the folder. Fills the experiment's tensors
  /// from the checkpoint `start`.
  Trainer(Config& config, Experiment experiment, const RunFolder& folder,
          const std::optional<Start>& start, const Registries& known, Progress& progress,
          Communicator& communicator);

  /// Trains until the configured end or a stop signal, then saves a checkpoint and summary.json. A
  /// signal also ends a pass over the test sequences, which a resumed run repeats as a whole.
  /// Throws TrainingDiverged if a loss, a gradient or an updated parameter is not finite. It then
  /// neither writes nor removes a checkpoint.
  RunSummary run(const StopSignal& stop);

 private:
  RunStatus train(const StopSignal& stop);
  std::optional<RunStatus> finish_resumed_step(const StopSignal& stop);
  std::optional<RunStatus> finish_step(const StopSignal& stop);
  bool test(const StopSignal& stop);
  StepBatch make_batch(std::uint64_t step) const;
  void train_step(const StepBatch& batch);
  bool is_read_now() const;
  void read_step();
  void note_test_score(const Score& score);
  void save_step();
  bool is_due(std::int64_t every) const { return every > 0 && step_ % every == 0; }
  bool is_last() const { return step_ >= config_.train.max_steps; }
  bool is_good_enough() const { return config_.train.early_stop.is_reached(evaluation_->total); }

  Config& config_;
  Experiment experiment_;
  const RunFolder& folder_;
  Communicator& communicator_;
  GradientSum gradient_sum_;
  const CheckpointKeeper keeper_;
  Recorder recorder_;

  std::int64_t step_ = 0;  // done
  TrainingRecord record_;
  std::optional<Evaluation> evaluation_;   // the last that was finite
  StepReport report_;                      // of the last step; score and norm as last read
  std::optional<StepScore> unread_score_;  // of the last step, until it is read
};

/// Checks the folder, builds, resumes and trains. All ranks call it with the same configuration.
RunSummary run_training(Config& config, const Resume& resume, const Registries& known,
                        Progress& progress, const StopSignal& stop, Communicator& communicator);
/// Trains in one process.
RunSummary run_training(Config& config, const Resume& resume, const Registries& known,
                        Progress& progress, const StopSignal& stop);

}  // namespace mobius
