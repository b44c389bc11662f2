// What a configuration describes, built: the task, the model, the optimiser.
#pragma once

#include <memory>

#include "data/task.h"
#include "nn/language_model.h"
#include "train/config.h"
#include "train/optimizer.h"

namespace mobius {

struct Experiment {
  std::unique_ptr<Task> task;
  std::shared_ptr<LanguageModel> model;
  std::unique_ptr<Optimizer> optimizer;
};

/// Throws ConfigError where parts do not fit together.
Experiment build_experiment(const Config& config, Shard optimizer_shard = {});

}  // namespace mobius
