// Builds the task, the model and the optimiser of a configuration.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "data/task.h"
#include "data/tokenizer.h"
#include "nn/language_model.h"
#include "train/config/config.h"
#include "train/optim/optimizer.h"

namespace mobius {

struct Experiment {
  std::unique_ptr<Task> task;
  std::shared_ptr<LanguageModel> model;
  std::unique_ptr<Optimizer> optimizer;
};

/// Builds the task, with the tokeniser of a checkpoint or one of its own.
std::unique_ptr<Task> build_task(const Config& config,
                                 const std::optional<TokenizerModel>& tokenizer = {});

/// Builds the experiment of a rank. Throws ConfigError if parts do not fit together or if the
/// memory does not suffice (require_memory()).
Experiment build_experiment(const Config& config, Shard rank = {},
                            const std::optional<TokenizerModel>& tokenizer = {});
/// Builds the rest around a task.
Experiment build_experiment(const Config& config, std::unique_ptr<Task> task, Shard rank = {});

/// Returns the model of the task's tokeniser, if it has one.
std::optional<TokenizerModel> tokenizer_model(const Task& task);

}  // namespace mobius
