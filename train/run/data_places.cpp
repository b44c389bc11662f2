#include "train/run/data_places.h"

#include <algorithm>

#include "core/error.h"
#include "data/token_source.h"
#include "train/run/run_folder.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

bool leads_somewhere(const std::string& pattern) {
  try {
    return !matching_files(pattern).empty();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void find_data(Config& config, const std::vector<fs::path>& folders) {
  for (const auto& [key, path] : config.task->places()) {
    if (path->empty() || leads_somewhere(*path)) continue;
    const auto found = std::find_if(folders.begin(), folders.end(), [&](const fs::path& folder) {
      return leads_somewhere((folder / *path).string());
    });
    if (found == folders.end()) {
      throw Error("task.{}: {}: no such file; say where it lies by task.{}=PATH", key, *path, key);
    }
    *path = (*found / *path).string();
  }
}

std::vector<fs::path> data_files(Config& config) {
  std::vector<fs::path> files;
  for (const auto& [key, path] : config.task->places()) {
    if (path->empty()) continue;
    const std::vector<fs::path> found = matching_files(*path);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

std::vector<fs::path> folders_for(const fs::path& config) {
  return folder_of_own_config(config) ? folders_above(config)
                                      : std::vector<fs::path>{config.parent_path()};
}

std::vector<fs::path> folders_above(const fs::path& file) {
  std::vector<fs::path> folders;
  for (fs::path path = fs::absolute(file).lexically_normal(); path.has_relative_path();) {
    path = path.parent_path();
    folders.push_back(path);
  }
  return folders;
}

}  // namespace mobius
