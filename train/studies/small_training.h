// Small models that studies train in memory: by the steps of the trainer, without files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/recording/score.h"
#include "train/run/experiment.h"

namespace mobius {

/// The score of all test sequences after a step.
struct TestPoint {
  std::int64_t step;
  Score score;
};

struct SmallTraining {
  Experiment experiment;  // trained
  std::vector<TestPoint> tests;
  double seconds_per_step = 0;
};

/// Reads the YAML text of a configuration. `name` stands for its file in messages.
std::unique_ptr<Config> config_of(const std::string& yaml, const std::string& name,
                                  const Registries& known);

/// Trains until train.max_steps or the early stop, and tests every eval.every steps and at the end.
/// `before_step`, called with the number of steps done, may throw to stop. Throws TrainingDiverged
/// like the trainer.
SmallTraining train_in_memory(const Config& config,
                              const std::function<void(std::int64_t step)>& before_step);

}  // namespace mobius
