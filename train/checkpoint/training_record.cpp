#include "train/checkpoint/training_record.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

// Returns 0 for a value that the checkpoint lacks.
double number_in(const std::map<std::string, double>& values, const char* name) {
  const auto entry = values.find(name);
  return entry == values.end() ? 0 : entry->second;
}

std::int64_t count_in(const std::map<std::string, double>& values, const char* name) {
  constexpr double most = 9007199254740992;  // 2^53
  const double value = number_in(values, name);
  if (!(value >= 0 && value <= most && value == std::floor(value)))
    throw Error("damaged: attribute '{}' of group 'progress' is {}, expected a count", name, value);
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::map<std::string, double> TrainingRecord::to_map() const {
  std::map<std::string, double> values = {{"train_seconds", train_seconds},
                                          {"tokens", static_cast<double>(tokens)},
                                          {"evaluated_step", static_cast<double>(evaluated_step)}};
  if (best) values["best_step"] = static_cast<double>(best->step);
  if (best) values["best_value"] = best->value;
  if (steps_to_99) values["steps_to_99"] = static_cast<double>(*steps_to_99);
  return values;
}

// Earlier versions could take a score that was not finite for the best.
TrainingRecord TrainingRecord::from_map(const std::map<std::string, double>& values) {
  TrainingRecord record;
  record.train_seconds = number_in(values, "train_seconds");
  record.tokens = count_in(values, "tokens");
  record.evaluated_step = count_in(values, "evaluated_step");
  const BestState best = {count_in(values, "best_step"), number_in(values, "best_value")};
  const bool has_best = values.contains("best_step") && values.contains("best_value");
  if (has_best && std::isfinite(best.value)) record.best = best;
  const std::int64_t steps_to_99 = count_in(values, "steps_to_99");
  if (values.contains("steps_to_99")) record.steps_to_99 = steps_to_99;
  return record;
}

TrainingRecord TrainingRecord::of(const CheckpointHeader& header, const fs::path& path) {
  TrainingRecord record;
  try {
    record = from_map(header.progress);
  } catch (const Error& error) {
    throw Error("{}: {}", path.string(), error.what());
  }
  // The best state may be of a later step, which a killed run had done and this one repeats.
  const std::int64_t latest = std::max(record.evaluated_step, record.steps_to_99.value_or(0));
  if (latest > header.step)
    throw Error("{}: damaged: it is of step {}, but tells of step {}", path.string(), header.step,
                latest);
  return record;
}

}  // namespace mobius
