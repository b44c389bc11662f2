// Writes files that are whole or absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mobius {

/// Owns an open file of the system, and closes it.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int get() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// A file in the making, beside the place where it will be. Until commit() the file at `path` stays
/// as it was; a temporary file that is never committed is removed with this object.
///
/// A link stays, and its target is written. write() writes to a device or a pipe at once, since it
/// has nothing to keep.
class PendingFile {
 public:
  /// Throws Error if links lead in a circle.
  explicit PendingFile(const std::filesystem::path& path);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  /// Writes the whole content, once, to a new temporary file that replaces no other file. Throws
  /// Error that names `path`.
  void write(std::span<const char> content);
  /// Whether write() puts the content in its final place: `path` is a device or a pipe.
  bool is_in_place() const { return is_in_place_; }
  /// The temporary file. is_temporary() knows such names.
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
  bool is_made_ = false;  // this object has made the temporary file
  Descriptor descriptor_;
};

/// A file that write() appends to; others can read the text at once.
class AppendedFile {
 public:
  /// Makes the file if it is absent. Throws Error.
  explicit AppendedFile(std::filesystem::path path);

  /// Throws Error; a part of the text may then have been written.
  void write(std::string_view text);

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
};

/// Replaces the file at `path`, or makes it, as PendingFile does. Throws Error.
void write_whole_file(const std::filesystem::path& path, std::string_view text);

/// Makes a folder and those above it if they are absent. Throws Error.
void make_folder(const std::filesystem::path& folder);

/// Lists a folder in the order of its names; an absent folder has no entries. Throws Error if it
/// cannot be read.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

/// Throws ConfigError if a file that the user has named may not be written: it is a folder, it is
/// one of the files `read` (even by another name), or it exists and `may_replace` is false.
void require_free(const std::filesystem::path& out,
                  std::initializer_list<std::filesystem::path> read, bool may_replace);

/// Whether PendingFile gives such names to unfinished files.
bool is_temporary(const std::filesystem::path& path);
/// Removes only the unfinished files that killed processes have left in a folder. No other process
/// may be writing to it.
void remove_unfinished(const std::filesystem::path& folder);
/// Removes the unfinished files that killed processes have left of the file `path`, in a folder
/// that others may be writing to. Files that a process still writes stay, and so do all files on
/// file systems without locks.
void remove_abandoned(const std::filesystem::path& path);

/// Keeps other processes from using a folder until it is destroyed or the process ends in any way.
/// It does nothing on file systems without locks.
class FolderLock {
 public:
  /// Throws Error if another process holds the folder.
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  Descriptor descriptor_;
};

}  // namespace mobius
