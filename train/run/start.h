// The checkpoint that a run resumes from.
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
  Metric metric = Metric::loss;  ///< of its best state
};

/// Replaces a folder that `resume` names by its newest checkpoint, as the root finds it. Throws
/// Error if there is none, or if the file is no checkpoint.
Resume with_file(Resume resume, Progress& progress, Communicator& communicator);

/// Finds the checkpoint for all ranks, or nothing if the run begins. Says which settings have
/// changed and throws ConfigError if one of them may not.
std::optional<Start> find_start(Config& config, const RunFolder& folder, const Resume& resume,
                                const Registries& known, Progress& progress,
                                Communicator& communicator);

/// Builds the task of a run that resumes from `start`, with the tokeniser of the checkpoint. Throws
/// ConfigError if tokeniser or data differ from the checkpoint's.
std::unique_ptr<Task> build_task_of(const Start& start, const Config& config);

/// Says how the task's data differ from those of a checkpoint: "was made with ..., but now there
/// are
/// ...", or "" if they do not.
std::string data_difference(const CheckpointHeader& header, const Task& task);

}  // namespace mobius
