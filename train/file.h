// Files that are whole or absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace mobius {

/// A file in the making, beside the place where it will be. Until commit() the file at `path` stays
/// as it was; a temporary file that is never committed is removed with this object.
class PendingFile {
 public:
  explicit PendingFile(std::filesystem::path path);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  /// Writes the whole content. Throws Error.
  void write(std::span<const char> content);
  /// Where it is written. The name ends in ".tmp".
  const std::filesystem::path& temporary() const { return temporary_; }
  /// Forces the temporary file to the disk and gives it its name: afterwards the file at `path` is
  /// the new one, even if the machine stops at once. Throws Error and changes nothing otherwise.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
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
/// Throws Error where the file cannot be read.
std::string read_whole_file(const std::filesystem::path& path);

/// Whether the name is one that PendingFile gives to unfinished files.
bool is_temporary(const std::filesystem::path& path);

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
