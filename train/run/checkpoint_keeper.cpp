#include "train/run/checkpoint_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "core/cpu/simd/isa.h"
#include "core/error.h"
#include "data/input_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/io/file.h"
#include "train/optim/sharding.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

// What a file holds as the best state of this run; nothing where it is not there, broken, another
// run's, or judged by another metric. Throws UnreadableFile where it may be good: it would be
// written over.
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

// The best state of a run that goes on from the checkpoint `start` and keeps best.h5 in the folder
// `checkpoints`: a record without its file says nothing, so it is what the best.h5 there says of
// itself. Where there is none, as at the beginning of a branch, the one `recorded` is copied from
// beside `start`; nothing where it is no longer there. Throws Error where it cannot be written.
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

// The root's.
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
  record.best = find_best(start, recorded, known);
  if (recorded && !record.best) {
    progress.say(
        fmt::format("resume: the best state, of step {}, is not here: the next test is "
                    "the best so far",
                    recorded->step));
  }
  return record;
}

// The record of the best state and its file go together: what a file does not have is not the best.
std::optional<BestState> CheckpointKeeper::find_best(const Start& start,
                                                     const std::optional<BestState>& recorded,
                                                     const Registries& known) const {
  if (!config_.checkpoint.keep_best) return recorded;
  std::optional<BestState> best;
  if (communicator_.is_root()) best = take_best(folder_, start.path, recorded, config_, known);
  return broadcast(best, communicator_);
}

void CheckpointKeeper::save_step(std::int64_t step, const TrainingRecord& record) const {
  save(checkpoint_path(folder_, step), step, record);
  prune(step);
}

void CheckpointKeeper::save_best(std::int64_t step, const TrainingRecord& record) const {
  save(best_checkpoint(folder_), step, record);
}

void CheckpointKeeper::prune(std::int64_t step) const {
  if (communicator_.is_root()) prune_checkpoints(folder_, step, config_.checkpoint.keep_last);
}

// The optimiser's state comes together first: all ranks take part.
void CheckpointKeeper::save(const fs::path& path, std::int64_t step,
                            const TrainingRecord& record) const {
  CheckpointTensors tensors = tensors_of(*experiment_.model);
  tensors.optimizer = gather_state(*experiment_.optimizer, communicator_);
  if (!communicator_.is_root()) return;
  CheckpointHeader header;
  header.step = step;
  header.seed = config_.train.seed;
  header.config = resolved_yaml(config_);
  header.optimizer_steps = experiment_.optimizer->steps_taken();
  header.progress = record.to_map();
  header.tokenizer = tokenizer_model(*experiment_.task);
  header.data = experiment_.task->fingerprint();
  header.instruction_set = instruction_set();
  save_checkpoint(path, header, tensors);
}

}  // namespace mobius
