#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <system_error>

#include "core/error.h"
#include "train/checkpoint.h"
#include "train/file.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

bool is_step_file(const fs::path& path) {
  const std::string stem = path.stem().string();
  constexpr std::string_view prefix = "step-";
  return path.extension() == ".h5" && stem.starts_with(prefix) && stem.size() > prefix.size() &&
         std::all_of(stem.begin() + prefix.size(), stem.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) files.push_back(entry.path());
  return files;
}

}  // namespace

fs::path checkpoint_path(const fs::path& folder, std::int64_t step) {
  return folder / fmt::format("step-{:08}.h5", step);
}

std::vector<fs::path> step_checkpoints(const fs::path& folder) {
  std::vector<fs::path> files = files_in(folder);
  std::erase_if(files, [](const fs::path& path) { return !is_step_file(path); });
  // By length first: steps of more than eight digits come last.
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    const std::string& left = a.native();
    const std::string& right = b.native();
    return left.size() != right.size() ? left.size() < right.size() : left < right;
  });
  return files;
}

NewestCheckpoint newest_checkpoint(const fs::path& folder) {
  std::vector<fs::path> candidates = step_checkpoints(folder);
  std::reverse(candidates.begin(), candidates.end());
  if (const fs::path best = folder / "best.h5"; fs::exists(best)) candidates.push_back(best);

  NewestCheckpoint newest;
  for (const fs::path& path : candidates) {
    try {
      read_checkpoint_header(path);
      newest.path = path;
      break;
    } catch (const Error& error) {
      newest.skipped.emplace_back(error.what());
    }
  }
  return newest;
}

void prune_checkpoints(const fs::path& folder, std::int64_t keep) {
  std::error_code ignored;
  for (const fs::path& path : files_in(folder)) {
    if (is_temporary(path)) fs::remove(path, ignored);
  }
  std::vector<fs::path> files = step_checkpoints(folder);
  const auto kept = std::min(files.size(), static_cast<std::size_t>(keep));
  files.resize(files.size() - kept);
  for (const fs::path& path : files) fs::remove(path, ignored);
}

}  // namespace mobius
