#include "train/recording/training_record.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "data/input_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/io/file.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

template <typename T>
void put(std::map<std::string, double>& values, const char* name, const std::optional<T>& value) {
  if (value) values[name] = static_cast<double>(*value);
}

void get(const std::map<std::string, double>& values, const char* name,
         std::optional<double>& value) {
  if (const auto entry = values.find(name); entry != values.end()) value = entry->second;
}

// A count of a checkpoint, or an Error that names it.
std::int64_t count_in(const char* name, double value) {
  constexpr double most = 9007199254740992;  // 2^53
  if (!(value >= 0 && value <= most && value == std::floor(value)))
    throw Error("damaged: attribute '{}' of group 'progress' is {}, expected a count", name, value);
  return static_cast<std::int64_t>(value);
}

void get(const std::map<std::string, double>& values, const char* name,
         std::optional<std::int64_t>& count) {
  if (const auto entry = values.find(name); entry != values.end())
    count = count_in(name, entry->second);
}

double value_or_0(const std::map<std::string, double>& values, const char* name) {
  const auto entry = values.find(name);
  return entry == values.end() ? 0 : entry->second;
}

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
    const auto best = TrainingRecord::from_map(header.progress).best();
    return is_same && best && best->step == header.step ? best : std::nullopt;
  } catch (const UnreadableFile&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<BestState> TrainingRecord::best() const {
  if (!best_step || !best_value) return std::nullopt;
  return BestState{*best_step, *best_value};
}

void TrainingRecord::set_best(const std::optional<BestState>& best) {
  best_step = best ? std::optional(best->step) : std::nullopt;
  best_value = best ? std::optional(best->value) : std::nullopt;
}

std::map<std::string, double> TrainingRecord::to_map() const {
  std::map<std::string, double> values = {{"train_seconds", train_seconds},
                                          {"tokens", static_cast<double>(tokens)},
                                          {"evaluated_step", static_cast<double>(evaluated_step)}};
  put(values, "best_step", best_step);
  put(values, "best_value", best_value);
  put(values, "steps_to_99", steps_to_99);
  return values;
}

TrainingRecord TrainingRecord::from_map(const std::map<std::string, double>& values) {
  TrainingRecord record;
  record.train_seconds = value_or_0(values, "train_seconds");
  record.tokens = count_in("tokens", value_or_0(values, "tokens"));
  record.evaluated_step = count_in("evaluated_step", value_or_0(values, "evaluated_step"));
  get(values, "best_step", record.best_step);
  get(values, "best_value", record.best_value);
  // An earlier version could take a score that was not finite for the best.
  if (record.best_value && !std::isfinite(*record.best_value)) record.set_best(std::nullopt);
  get(values, "steps_to_99", record.steps_to_99);
  return record;
}

TrainingRecord TrainingRecord::of(const CheckpointHeader& header, const fs::path& path) {
  TrainingRecord record;
  try {
    record = from_map(header.progress);
  } catch (const Error& error) {
    throw Error("{}: {}", path.string(), error.what());
  }
  // The best state may be of a later step, which a killed run had done and this one does again.
  const std::int64_t latest = std::max(record.evaluated_step, record.steps_to_99.value_or(0));
  if (latest > header.step)
    throw Error("{}: damaged: it is of step {}, but tells of step {}", path.string(), header.step,
                latest);
  return record;
}

std::optional<BestState> take_best(const fs::path& checkpoints, const fs::path& start,
                                   const std::optional<BestState>& recorded, Config& config,
                                   const Registries& known) {
  const fs::path own = best_checkpoint(checkpoints);
  if (const auto best = best_in(own, config, known)) return best;
  if (!recorded) return std::nullopt;
  const fs::path file = fs::canonical(start);
  for (const fs::path& candidate : {best_checkpoint(file.parent_path()), file}) {
    if (best_in(candidate, config, known) != recorded) continue;
    write_whole_file(own, read_whole_file(candidate));
    return recorded;
  }
  return std::nullopt;
}

}  // namespace mobius
