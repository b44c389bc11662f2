// The folder of a run:
//
//   config.yaml     the resolved configuration
//   metrics.jsonl   one object a line
//   summary.json    the result
//   checkpoints/    step-00000100.h5, ..., best.h5
//   tensorboard/    the numbers of metrics.jsonl for TensorBoard
//   attention_maps.json  where eval.attention_maps asks for them
//   log.txt         what a run of a comparison said
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

/// What to continue.
struct Resume {
  enum class From { nothing, newest, file };
  From from = From::nothing;
  std::filesystem::path file{};  ///< for From::file; a folder stands for its newest checkpoint

  /// "" is nothing, "auto" the newest complete checkpoint of the folder (a fresh start where there
  /// is none), anything else a file or a folder.
  static Resume parse(const std::string& text);
};

/// Throws ConfigError where a folder's name has control characters or bytes that are no UTF-8: it
/// could not be read back from config.yaml, or would break the line of a command that names it.
void require_plain_name(const std::filesystem::path& folder);

/// The config.yaml of a run: its first line says that Mobius wrote it.
std::string run_config_text(const std::string& resolved_yaml);

/// Whether the folder holds a run, told by what a run writes: a config.yaml of the above, a
/// checkpoint, lines of metrics, or a summary. Whatever else lies there does not matter.
bool holds_run(const std::filesystem::path& folder);

/// Where the run of a configuration lives that is a run's own config.yaml: beside it, wherever the
/// folder has been moved since. Nothing for any other file.
std::optional<std::filesystem::path> folder_of_own_config(const std::filesystem::path& config);

/// Reads a configuration from a file, with "key.path=value" overrides, as make_config() does. Where
/// the file is a run's own config.yaml, the output folder is the one that it lies in, whatever the
/// file says: runs can be moved.
std::unique_ptr<Config> load_config(const std::filesystem::path& path,
                                    const std::vector<std::string>& overrides,
                                    const Registries& known);

/// Throws ConfigError, with what to do instead, where a run may not use the folder. Without resume
/// it must hold no run; with resume of a file, none but the one that the file belongs to, without
/// checkpoints newer than the one chosen. A folder without a run must hold no file that a run would
/// write over; others are left alone.
void require_usable_folder(const std::filesystem::path& folder, const Resume& resume);

/// A run's folder.
class RunFolder {
 public:
  /// Only names its files: for a rank that does not write them.
  explicit RunFolder(const std::filesystem::path& path);
  /// Makes it where it is absent, holds it against other processes while the result lives, and
  /// removes the unfinished files of a run that was killed.
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
