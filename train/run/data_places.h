// Where the data of a run lie: a matter of the day, unlike what they are.
//
// A relative path starts from the working directory; where nothing lies there, from folders of the
// file that names the path. Whether data are those of a run is never told by their place, but by
// Task::fingerprint().
#pragma once

#include <filesystem>
#include <vector>

#include "train/config/config.h"

namespace mobius {

/// Lets those paths of the task's data that lead nowhere from the working directory start from the
/// first of `folders` from which they lead somewhere. Throws Error that names the key to override
/// where none is.
void find_data(Config& config, const std::vector<std::filesystem::path>& folders);

/// The files of the task's data. Throws Error where there are none of a pattern.
std::vector<std::filesystem::path> data_files(Config& config);

/// The folders from which the relative paths of a configuration start: its own; where it is that of
/// a run, also those above it.
std::vector<std::filesystem::path> folders_for(const std::filesystem::path& config);

/// The folder that a file lies in, and all above it.
std::vector<std::filesystem::path> folders_above(const std::filesystem::path& file);

}  // namespace mobius
