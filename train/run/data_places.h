// Finds the data of a run, which may have moved.
//
// A relative path starts from the working directory or, if it leads nowhere, from folders of the
// file that names it. Task::fingerprint() tells whether data are those of a run.
#pragma once

#include <filesystem>
#include <vector>

#include "train/config/config.h"

namespace mobius {

/// Prepends to each path of the task's data that leads nowhere the first of `folders` from which it
/// leads somewhere. Throws Error that names the key to override if there is none.
void find_data(Config& config, const std::vector<std::filesystem::path>& folders);

/// Lists the files of the task's data. Throws Error if a pattern matches none.
std::vector<std::filesystem::path> data_files(Config& config);

/// Returns the folders from which the relative paths of a configuration start: its own and, for the
/// configuration of a run, those above it.
std::vector<std::filesystem::path> folders_for(const std::filesystem::path& config);

/// Returns the folder of a file and all above it.
std::vector<std::filesystem::path> folders_above(const std::filesystem::path& file);

}  // namespace mobius
