// Files that are whole or absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mobius {

/// A file in the making, beside the place where it will be. Until commit() the file at `path` stays
/// as it was; a temporary file that is never committed is removed with this object.
///
/// A link is followed: what it leads to is written, and the link stays. A device or a pipe has
/// nothing to keep: write() writes to it at once.
class PendingFile {
 public:
  /// Throws Error where links lead in a circle.
  explicit PendingFile(const std::filesystem::path& path);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  /// Writes the whole content, once. The temporary file is always a new one, so nothing that lies
  /// there is written over. Throws Error that names `path`.
  void write(std::span<const char> content);
  /// Whether what is written is already where it should be: a device or a pipe has it.
  bool is_in_place() const { return is_in_place_; }
  /// Where it is written. is_temporary() knows such names.
  const std::filesystem::path& temporary() const { return temporary_; }
  /// Forces the temporary file to the disk and gives it its name: afterwards the file at `path` is
  /// the new one, even if the machine stops at once. It keeps the permissions of the earlier one,
  /// and its owner may write. Throws Error otherwise: the earlier file is then as it was, unless
  /// only the folder could not be forced to the disk.
  void commit();

 private:
  void open_new();
  void close_checked();

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool is_in_place_ = false;
  bool is_made_ = false;  // the temporary file, by this object
  int descriptor_ = -1;
};

/// A file that grows at its end, by what write() is given: it is there for others to read at once.
class AppendedFile {
 public:
  /// Makes the file where there is none. Throws Error.
  explicit AppendedFile(std::filesystem::path path);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  /// Throws Error; a part of the text may then have been written.
  void write(std::string_view text);

 private:
  std::filesystem::path path_;
  int descriptor_;
};

/// Replaces the file at `path`, or makes it, as PendingFile does. Throws Error.
void write_whole_file(const std::filesystem::path& path, std::string_view text);

/// Makes a folder and those above it, where they are absent. Throws Error.
void make_folder(const std::filesystem::path& folder);

/// What lies in a folder, in the order of its names; nothing where there is no such folder. Throws
/// Error where it cannot be read.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

/// Throws ConfigError where a file that the user has named may not be written: it is a folder, it
/// is one of the files `read` (by another name, too), or it holds something, unless `may_replace`.
void require_free(const std::filesystem::path& out,
                  std::initializer_list<std::filesystem::path> read, bool may_replace);

/// Whether the name is one that PendingFile gives to unfinished files.
bool is_temporary(const std::filesystem::path& path);
/// Removes what killed processes have left unfinished in a folder: files with names as above, and
/// nothing else. For a folder that no other process is writing to.
void remove_unfinished(const std::filesystem::path& folder);
/// Removes what killed processes have left unfinished of the file `path` alone, in a folder that
/// others may be writing to. What a process still writes stays; file systems without locks keep
/// everything.
void remove_abandoned(const std::filesystem::path& path);

/// Keeps other processes from using a folder until it is destroyed or the process ends, in any way.
/// File systems without locks are taken as they are.
class FolderLock {
 public:
  /// Throws Error where another process holds the folder.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace mobius
