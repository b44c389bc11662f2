// What a configuration describes, built: the task, the model, the optimiser.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/device.h"
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

/// The device that a process computes on: that of `train.device`, and of those that are several on
/// a machine, the one whose number is the local rank.
Device device_for(const std::string& option, int local_rank);
/// The same for this process, as it was launched.
Device device_of(const Config& config);

/// The task alone; with the tokeniser that a checkpoint holds, it makes none of its own.
std::unique_ptr<Task> build_task(const Config& config,
                                 const std::optional<TokenizerModel>& tokenizer = {});

/// Throws ConfigError where parts do not fit together, and where the memory for them is not there
/// (require_memory()), before it is taken. With the tokeniser that a checkpoint holds,
/// the task makes none of its own. `rank` says which of how many ranks builds it.
Experiment build_experiment(const Config& config, Shard rank = {},
                            const std::optional<TokenizerModel>& tokenizer = {});
/// Builds the rest around a task.
Experiment build_experiment(const Config& config, std::unique_ptr<Task> task, Shard rank = {});

/// That of the task's tokeniser; nothing where it has none.
std::optional<TokenizerModel> tokenizer_model(const Task& task);

}  // namespace mobius
