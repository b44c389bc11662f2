// The folder of a run:
//
//   config.yaml     the resolved configuration
//   metrics.jsonl   one object a line
//   summary.json    the result
//   checkpoints/    step-00000100.h5, ..., best.h5
//   tensorboard/    the numbers of metrics.jsonl for TensorBoard
//   attention_maps.json  if eval.attention_maps is on
//   log.txt         the output of a run of a comparison
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/config/config.h"
#include "train/io/file.h"

namespace mobius {

/// The run to continue.
struct Resume {
  enum class From { nothing, newest, file };
  From from = From::nothing;
  std::filesystem::path file{};  ///< for From::file; a folder stands for its newest checkpoint

  /// "" is nothing, "auto" the newest complete checkpoint of the folder (a fresh start without
  /// one), anything else a file or a folder.
  static Resume parse(const std::string& text);
};

/// Throws ConfigError if a folder's name has control characters or bytes that are not UTF-8, which
/// config.yaml cannot hold and which break the line of a command that names it.
void require_plain_name(const std::filesystem::path& folder);

/// Makes the config.yaml of a run, whose first line says that Mobius wrote it.
std::string run_config_text(const std::string& resolved_yaml);

/// Whether the folder holds what a run writes: such a config.yaml, a checkpoint, lines of metrics,
/// or a summary.
bool holds_run(const std::filesystem::path& path);

/// Returns the folder of a run's own config.yaml, which may have moved, and nothing for other
/// files.
std::optional<std::filesystem::path> folder_of_own_config(const std::filesystem::path& config);

/// Reads a configuration from a file, with "key.path=value" overrides, as make_config() does. A
/// run's own config.yaml means the folder that it lies in, whatever it says, because runs can be
/// moved.
std::unique_ptr<Config> load_config(const std::filesystem::path& path,
                                    const std::vector<std::string>& overrides,
                                    const Registries& known);

/// Throws ConfigError, with what to do instead, if a run may not use the folder. Without resume it
/// must hold no run; to resume from a file, it may hold the run of that file, without newer
/// checkpoints. A folder without a run must hold no file that a run would write over.
void require_usable_folder(const std::filesystem::path& folder, const Resume& resume);

class RunFolder {
 public:
  /// Only names its files.
  explicit RunFolder(const std::filesystem::path& path) : path_(path) {}
  /// Makes it if it is absent, locks it against other processes while the result lives, and removes
  /// the unfinished files of a killed run.
  static RunFolder take(const std::filesystem::path& path);

  bool is_taken() const { return lock_ != nullptr; }

  std::filesystem::path config() const { return path_ / "config.yaml"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path summary() const { return path_ / "summary.json"; }
  std::filesystem::path checkpoints() const { return checkpoints_of_run(path_); }
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  std::filesystem::path attention_maps() const { return path_ / "attention_maps.json"; }
  std::filesystem::path log() const { return path_ / "log.txt"; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<FolderLock> lock_;
};

}  // namespace mobius
