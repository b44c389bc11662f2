#include "train/run_folder.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "train/checkpoint.h"
#include "train/printable.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

bool is_of_a_run(const fs::path& entry) {
  constexpr std::array<std::string_view, 7> names = {
      "config.yaml", "metrics.jsonl", "summary.json",       "checkpoints",
      "tensorboard", "log.txt",       "attention_maps.json"};
  return is_temporary(entry) ||
         std::find(names.begin(), names.end(), entry.filename().string()) != names.end();
}

void require_of_a_run(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_of_a_run(entry.path())) continue;
    throw ConfigError("{}: is not the folder of a run: it holds '{}'; choose another by --out DIR",
                      folder.string(), entry.path().filename().string());
  }
}

// Whether nothing was ever written there: a run that could not start leaves its empty folders.
bool is_unused(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() != "checkpoints" || !fs::is_empty(entry.path())) return false;
  }
  return true;
}

void require_own_newest(const fs::path& folder, const fs::path& file) {
  if (!fs::equivalent(folder, file.parent_path().parent_path())) {
    throw ConfigError(
        "{}: is not empty and not the run that {} belongs to; choose another by --out DIR",
        folder.string(), file.string());
  }
  const std::int64_t step = read_checkpoint_header(file).step;
  const std::vector<fs::path> steps = step_checkpoints(folder / "checkpoints");
  if (!steps.empty() && steps.back() > checkpoint_path(folder / "checkpoints", step)) {
    throw ConfigError(
        "{}: holds checkpoints of later steps than {}; use --resume auto, or branch off by --out "
        "DIR",
        folder.string(), file.string());
  }
}

}  // namespace

Resume Resume::parse(const std::string& text) {
  if (text.empty()) return {};
  if (text == "auto") return {From::newest};
  return {From::file, text};
}

void require_plain_name(const fs::path& folder) {
  const std::string& name = folder.native();
  if (find_binary(name) == name.size() && name.find_first_of("\t\n\r") == std::string::npos) return;
  throw printable_error("{}: expected a folder's name in UTF-8, without control characters", name);
}

void require_usable_folder(const fs::path& folder, const Resume& resume) {
  require_plain_name(folder);
  if (!fs::exists(folder)) return;
  if (!fs::is_directory(folder)) throw ConfigError("{}: is not a folder", folder.string());
  if (is_unused(folder)) return;
  switch (resume.from) {
    case Resume::From::nothing:
      throw ConfigError(
          "{}: is not empty; continue the run in it by --resume auto, or choose another folder by "
          "--out DIR",
          folder.string());
    case Resume::From::newest:
      return require_of_a_run(folder);
    case Resume::From::file:
      return require_own_newest(folder, fs::absolute(resume.file));
  }
}

RunFolder::RunFolder(const fs::path& path) : path_(path) {}

RunFolder RunFolder::take(const fs::path& path) {
  RunFolder folder(path);
  std::error_code error;
  fs::create_directories(folder.checkpoints(), error);
  if (error) throw Error("{}: cannot be made: {}", path.string(), error.message());
  folder.lock_ = std::make_unique<FolderLock>(path);
  return folder;
}

}  // namespace mobius
