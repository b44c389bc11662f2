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
#include <string>

#include "train/file.h"

namespace mobius {

/// What to continue.
struct Resume {
  enum class From { nothing, newest, file };
  From from = From::nothing;
  std::filesystem::path file{};  ///< for From::file

  /// "" is nothing, "auto" the newest complete checkpoint of the folder (a fresh start where there
  /// is none), anything else a file.
  static Resume parse(const std::string& text);
};

/// Throws ConfigError where a folder's name has control characters or bytes that are no UTF-8: it
/// could not be read back from config.yaml, or would break the line of a command that names it.
void require_plain_name(const std::filesystem::path& folder);

/// Throws ConfigError, with what to do instead, where a run may not use the folder: without resume
/// it must be empty or absent; with resume, it must be empty, absent, or the folder of the run that
/// is resumed, without checkpoints newer than the one chosen.
void require_usable_folder(const std::filesystem::path& folder, const Resume& resume);

/// A run's folder.
class RunFolder {
 public:
  /// Only names its files: for a rank that does not write them.
  explicit RunFolder(const std::filesystem::path& path);
  /// Makes it where it is absent, and holds it against other processes while the result lives.
  static RunFolder take(const std::filesystem::path& path);

  std::filesystem::path config() const { return path_ / "config.yaml"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path summary() const { return path_ / "summary.json"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  std::filesystem::path attention_maps() const { return path_ / "attention_maps.json"; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<FolderLock> lock_;
};

}  // namespace mobius
