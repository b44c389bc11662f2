// Saves the state of a run, restores it, and keeps the best one.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/comm/communicator.h"
#include "train/checkpoint/training_record.h"
#include "train/config/config.h"
#include "train/run/experiment.h"
#include "train/run/progress.h"
#include "train/run/run_folder.h"
#include "train/run/start.h"

namespace mobius {

/// The checkpoints of a run. All ranks call its functions; only the root writes.
class CheckpointKeeper {
 public:
  /// The arguments must outlive it.
  CheckpointKeeper(Config& config, const Experiment& experiment, const RunFolder& folder,
                   Communicator& communicator);

  /// Fills the experiment's tensors from the checkpoint and returns the record of the run. The file
  /// of its best state is in the run's folder or is copied there; if there is none, it says so.
  TrainingRecord restore(const Start& start, const Registries& known, Progress& progress) const;

  /// Writes the checkpoint of a step, and removes those that are too many.
  void save_step(std::int64_t step, const TrainingRecord& record) const;
  /// Replaces the best state.
  void save_best(std::int64_t step, const TrainingRecord& record) const {
    save(best_checkpoint(folder_), step, record);
  }
  /// Removes the checkpoints up to `step` that are too many.
  void prune(std::int64_t step) const;

 private:
  void save(const std::filesystem::path& path, std::int64_t step,
            const TrainingRecord& record) const;

  Config& config_;
  const Experiment& experiment_;
  const std::filesystem::path folder_;
  Communicator& communicator_;
};

}  // namespace mobius
