// The checkpoint that a run goes on from.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "core/comm/communicator.h"
#include "data/task.h"
#include "train/checkpoint/checkpoint.h"
#include "train/config/config.h"
#include "train/run/progress.h"
#include "train/run/run_folder.h"

namespace mobius {

struct Start {
  std::filesystem::path path;
  CheckpointHeader header;
  Metric metric = Metric::loss;  ///< by which its best state was chosen
};

/// Puts the newest checkpoint, as the root finds it, in place of a folder that `resume` names.
/// Throws Error where there is none, or where the file is no checkpoint.
Resume with_file(Resume resume, Progress& progress, Communicator& communicator);

/// Finds the checkpoint for all ranks alike; nothing where the run begins. Says which settings have
/// changed since, and throws ConfigError where one of them makes the run what it is.
std::optional<Start> find_start(Config& config, const RunFolder& folder, const Resume& resume,
                                const Registries& known, Progress& progress,
                                Communicator& communicator);

/// Builds the task of a run that goes on from `start`. It takes the tokeniser of the checkpoint
/// rather than learn one again. Throws ConfigError where tokeniser or data are not those of the
/// checkpoint.
std::unique_ptr<Task> build_task_of(const Start& start, const Config& config);

/// "was made with ..., but now there are ...": how the task's data differ from those that a
/// checkpoint was made with; empty where they do not.
std::string data_difference(const CheckpointHeader& header, const Task& task);

}  // namespace mobius
