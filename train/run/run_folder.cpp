#include "train/run/run_folder.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "data/input_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checksum.h"
#include "train/io/printable.h"
#include "train/recording/metrics.h"
#include "train/recording/tensorboard.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view config_mark =
    "# Written by Mobius: the resolved configuration of the run in this folder.\n";

// A file that may not be looked at is none.
bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::vector<fs::path> checkpoint_files(const RunFolder& folder) {
  std::vector<fs::path> files = step_checkpoints(folder.checkpoints());
  if (const fs::path best = best_checkpoint(folder.checkpoints()); is_file(best))
    files.push_back(best);
  return files;
}

bool has_checkpoint(const RunFolder& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder.checkpoints(), ignored)) return false;
  const std::vector<fs::path> files = checkpoint_files(folder);
  return std::any_of(files.begin(), files.end(), begins_as_checkpoint);
}

// Throws if a new run would write over something.
void require_nothing_to_lose(const fs::path& path) {
  const RunFolder folder(path);
  std::vector<fs::path> files = {folder.config(), folder.metrics(), folder.summary(),
                                 folder.attention_maps(), event_file(folder.tensorboard())};
  for (const fs::path& file : checkpoint_files(folder)) files.push_back(file);
  for (const fs::path& part : {folder.checkpoints(), folder.tensorboard()}) {
    if (!fs::is_directory(part)) files.push_back(part);
  }
  for (const fs::path& file : files) {
    if (!fs::exists(file)) continue;
    throw ConfigError("{}: would be written over by the run; choose another folder by --out DIR",
                      file.string());
  }
}

// Writing follows links, so a link from a checkpoint to another would end both.
void require_distinct_checkpoints(const RunFolder& folder) {
  for (const fs::path& file : checkpoint_files(folder)) {
    if (!fs::is_symlink(file)) continue;
    const fs::path target = fs::canonical(file);
    if (!fs::equivalent(target.parent_path(), folder.checkpoints())) continue;
    throw ConfigError("{}: is a link to {}, which the run would write over; remove the link",
                      file.string(), target.filename().string());
  }
}

// A file lies where its name says and where links lead.
bool lies_in(const fs::path& file, const fs::path& folder) {
  return fs::equivalent(fs::absolute(file).parent_path(), folder) ||
         fs::equivalent(fs::canonical(file).parent_path(), folder);
}

void require_own_newest(const fs::path& folder, const fs::path& file) {
  const fs::path checkpoints = RunFolder(folder).checkpoints();
  if (!fs::is_directory(checkpoints) || !lies_in(file, checkpoints)) {
    throw ConfigError("{}: holds a run that is not the one of {}; choose another by --out DIR",
                      folder.string(), file.string());
  }
  const std::int64_t step = read_checkpoint_header(file).step;
  const std::vector<fs::path> steps = step_checkpoints(checkpoints);
  if (!steps.empty() && is_earlier(checkpoint_path(checkpoints, step), steps.back())) {
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

std::string run_config_text(const std::string& resolved_yaml) {
  return std::string(config_mark) + resolved_yaml;
}

bool holds_run(const fs::path& path) {
  const RunFolder folder(path);
  constexpr std::uintmax_t tail = 1 << 16;  // some lines of metrics
  return (is_file(folder.config()) && content_of(folder.config()).starts_with(config_mark)) ||
         has_checkpoint(folder) ||
         (is_file(folder.metrics()) && !read_metrics(folder.metrics(), tail).empty()) ||
         (is_file(folder.summary()) && read_summary(folder.summary()));
}

std::optional<fs::path> folder_of_own_config(const fs::path& config) {
  const fs::path folder = config.has_parent_path() ? config.parent_path() : fs::path(".");
  if (config.filename() != RunFolder(folder).config().filename()) return std::nullopt;
  return holds_run(folder) ? std::optional(folder) : std::nullopt;
}

std::unique_ptr<Config> load_config(const std::filesystem::path& path,
                                    const std::vector<std::string>& overrides,
                                    const Registries& known) {
  ConfigDocument document = ConfigDocument::from_file(path);
  if (const auto folder = folder_of_own_config(path)) {
    ConfigNode name{.kind = ConfigNode::Kind::scalar, .text = folder->string(), .is_quoted = true};
    document.merge({.kind = ConfigNode::Kind::map, .entries = {{"output.dir", "", name}}});
  }
  for (const std::string& assignment : overrides) document.override_with(assignment);
  return make_config(document, known);
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
  if (!holds_run(folder)) return require_nothing_to_lose(folder);
  if (resume.from == Resume::From::nothing) {
    throw ConfigError(
        "{}: holds a run; continue it by --resume auto, or choose another folder by --out DIR",
        folder.string());
  }
  if (resume.from == Resume::From::file) require_own_newest(folder, resume.file);
  require_distinct_checkpoints(RunFolder(folder));
}

RunFolder RunFolder::take(const fs::path& path) {
  RunFolder folder(path);
  make_folder(folder.checkpoints());
  folder.lock_ = std::make_unique<FolderLock>(path);
  for (const fs::path& part : {path, folder.checkpoints(), folder.tensorboard()}) {
    remove_unfinished(part);
  }
  return folder;
}

}  // namespace mobius
