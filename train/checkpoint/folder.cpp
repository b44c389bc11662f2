#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <system_error>

#include "core/error.h"
#include "data/input_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checksum.h"
#include "train/io/file.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t least_digits = 8;

// Files that checkpoint_path() does not name were written by somebody else.
bool is_step_file(const fs::path& path) {
  constexpr std::string_view prefix = "step-";
  const std::string stem = path.stem().string();
  if (path.extension() != ".h5" || !stem.starts_with(prefix)) return false;
  const std::string digits = stem.substr(prefix.size());
  const bool is_number = digits.size() >= least_digits &&
                         std::all_of(digits.begin(), digits.end(),
                                     [](unsigned char c) { return std::isdigit(c) != 0; });
  return is_number && (digits.size() == least_digits || digits.front() != '0');
}

// The place is a run's folder or the folder of checkpoints itself.
fs::path checkpoints_in(const fs::path& place) {
  const fs::path of_run = checkpoints_of_run(place);
  return fs::is_directory(of_run) ? of_run : place;
}

}  // namespace

fs::path checkpoints_of_run(const fs::path& run) { return run / "checkpoints"; }

fs::path checkpoint_path(const fs::path& folder, std::int64_t step) {
  return folder / fmt::format("step-{:0{}}.h5", step, least_digits);
}

fs::path best_checkpoint(const fs::path& folder) { return folder / "best.h5"; }

// Compares lengths first, because steps of more than eight digits come last.
bool is_earlier(const fs::path& a, const fs::path& b) {
  const std::string& left = a.native();
  const std::string& right = b.native();
  return left.size() != right.size() ? left.size() < right.size() : left < right;
}

std::vector<fs::path> step_checkpoints(const fs::path& folder) {
  std::vector<fs::path> files = entries_of(folder);
  std::erase_if(files, [](const fs::path& path) { return !is_step_file(path); });
  std::sort(files.begin(), files.end(), is_earlier);
  return files;
}

NewestCheckpoint newest_checkpoint(const fs::path& folder) {
  std::vector<fs::path> candidates = step_checkpoints(folder);
  std::reverse(candidates.begin(), candidates.end());
  if (const fs::path best = best_checkpoint(folder); fs::exists(best)) candidates.push_back(best);

  NewestCheckpoint newest;
  for (const fs::path& path : candidates) {
    try {
      verify_checksum(InputFile(path));
      newest.path = path;
      break;
    } catch (const UnreadableFile&) {
      throw;  // skipping it would repeat the work since the one before it
    } catch (const Error& error) {
      newest.skipped.emplace_back(error.what());
    }
  }
  return newest;
}

NewestCheckpoint newest_checkpoint_in(const fs::path& place) {
  NewestCheckpoint newest = newest_checkpoint(checkpoints_in(place));
  if (newest.path) return newest;
  if (newest.skipped.empty()) {
    throw Error("{}: holds no checkpoint; expected a checkpoint, or the folder of a run",
                place.string());
  }
  throw Error("{}: holds no complete checkpoint: {}", place.string(), newest.skipped.front());
}

fs::path find_checkpoint(const fs::path& place) {
  if (!fs::is_directory(place)) return place;
  const fs::path best = best_checkpoint(checkpoints_in(place));
  return fs::exists(best) ? best : *newest_checkpoint_in(place).path;
}

void prune_checkpoints(const fs::path& folder, std::int64_t step, std::int64_t keep) {
  std::error_code ignored;
  std::vector<fs::path> files = step_checkpoints(folder);
  files.erase(
      std::upper_bound(files.begin(), files.end(), checkpoint_path(folder, step), is_earlier),
      files.end());
  const auto kept = std::min(files.size(), static_cast<std::size_t>(keep));
  files.resize(files.size() - kept);
  for (const fs::path& path : files) fs::remove(path, ignored);
}

}  // namespace mobius
