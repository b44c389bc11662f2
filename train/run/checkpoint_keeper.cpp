#include "train/run/checkpoint_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "core/error.h"
#include "data/input_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/io/file.h"
#include "train/optim/sharding.h"
#include "train/run/device.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

// Returns the best state of this run that a file holds, or nothing if the file is missing, broken,
// of another run, or judged by another metric. Throws UnreadableFile if the file may be good,
// because it would be written over.
std::optional<BestState> best_in(const fs::path& file, Config& config, const Registries& known) {
  if (!fs::exists(file)) return std::nullopt;
  try {
    const CheckpointHeader header = read_checkpoint_header(file);
    const auto stored = parse_config(header.config, file.string(), known);
    const std::vector<ConfigChange> found = changes(*stored, config);
    const bool is_same = std::all_of(found.begin(), found.end(), [&](const ConfigChange& change) {
      return may_change_on_resume(config, change.key) && change.key != "checkpoint.metric";
    });
    const auto best = TrainingRecord::from_map(header.progress).best;
    return is_same && best && best->step == header.step ? best : std::nullopt;
  } catch (const UnreadableFile&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Finds the best state of a run that resumes from the checkpoint `start`. A record without its file
// is worthless, so best.h5 in the folder `checkpoints` decides. If it is missing, as in a new
// branch, the state `recorded` is copied from beside `start`. Throws Error if it cannot be written.
std::optional<BestState> take_best(const fs::path& checkpoints, const fs::path& start,
                                   const std::optional<BestState>& recorded, Config& config,
                                   const Registries& known) {
  const fs::path own = best_checkpoint(checkpoints);
  if (const auto best = best_in(own, config, known)) return best;
  if (!recorded) return std::nullopt;
  const fs::path file = fs::canonical(start);
  for (const fs::path& candidate : {best_checkpoint(file.parent_path()), file}) {
    if (best_in(candidate, config, known) != recorded) continue;
    write_whole_file(own, content_of(candidate));
    return recorded;
  }
  return std::nullopt;
}

// Gives all ranks the best state of the root.
std::optional<BestState> broadcast(const std::optional<BestState>& best,
                                   Communicator& communicator) {
  std::array<double, 3> root = {};
  if (best && communicator.is_root()) root = {1, static_cast<double>(best->step), best->value};
  communicator.sum(root);
  if (root[0] == 0) return std::nullopt;
  return BestState{static_cast<std::int64_t>(root[1]), root[2]};
}

}  // namespace

CheckpointKeeper::CheckpointKeeper(Config& config, const Experiment& experiment,
                                   const RunFolder& folder, Communicator& communicator)
    : config_(config),
      experiment_(experiment),
      folder_(folder.checkpoints()),
      communicator_(communicator) {}

TrainingRecord CheckpointKeeper::restore(const Start& start, const Registries& known,
                                         Progress& progress) const {
  CheckpointTensors tensors = tensors_of(*experiment_.model);
  tensors.optimizer = whole_state(*experiment_.optimizer);
  load_checkpoint(start.path, tensors);
  set_state(*experiment_.optimizer, tensors.optimizer);
  experiment_.optimizer->set_steps_taken(start.header.optimizer_steps);

  TrainingRecord record = TrainingRecord::of(start.header, start.path);
  const auto recorded = start.metric == config_.checkpoint.metric ? record.best : std::nullopt;
  record.best = recorded;
  if (config_.checkpoint.keep_best) {
    if (communicator_.is_root())
      record.best = take_best(folder_, start.path, recorded, config_, known);
    record.best = broadcast(record.best, communicator_);
  }
  if (recorded && !record.best) {
    progress.say(
        fmt::format("resume: the best state, of step {}, is not here: the next test is "
                    "the best so far",
                    recorded->step));
  }
  return record;
}

void CheckpointKeeper::save_step(std::int64_t step, const TrainingRecord& record) const {
  save(checkpoint_path(folder_, step), step, record);
  prune(step);
}

void CheckpointKeeper::prune(std::int64_t step) const {
  if (communicator_.is_root()) prune_checkpoints(folder_, step, config_.checkpoint.keep_last);
}

void CheckpointKeeper::save(const fs::path& path, std::int64_t step,
                            const TrainingRecord& record) const {
  CheckpointTensors tensors = tensors_of(*experiment_.model);
  tensors.optimizer = gather_state(*experiment_.optimizer, communicator_);  // by all ranks
  if (!communicator_.is_root()) return;
  save_checkpoint(path,
                  {.step = step,
                   .seed = config_.train.seed,
                   .config = resolved_yaml(config_),
                   .optimizer_steps = experiment_.optimizer->steps_taken(),
                   .progress = record.to_map(),
                   .tokenizer = tokenizer_model(*experiment_.task),
                   .data = experiment_.task->fingerprint(),
                   .instruction_set = computed_by(experiment_.model->device())},
                  tensors);
}

}  // namespace mobius
