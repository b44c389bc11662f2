// A file that is read at any place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/error.h"

namespace mobius {

/// The system would not open or read a file, though it may be good: the disk does not answer, no
/// descriptor is left, it is somebody else's.
class UnreadableFile : public Error {
 public:
  using Error::Error;
};

/// Every method is const and may be called from several threads at once.
class InputFile {
 public:
  /// Throws UnreadableFile where the file cannot be opened, Error where it is no regular file:
  /// never waits for a pipe without a writer, nor reads a device that has no end.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& name() const { return name_; }
  /// In bytes, when it was opened.
  std::uint64_t size() const { return size_; }
  /// The system's number of the open file, for reading alone; not to be closed.
  int descriptor() const { return descriptor_; }
  /// Fills `out` with the bytes from `offset` on. Throws UnreadableFile where they cannot be read,
  /// Error where they are no longer there because the file has shrunk.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::uint64_t size_now() const;

  const std::string name_;
  const int descriptor_;
  std::uint64_t size_ = 0;
};

/// The whole content of a regular file, up to its end when it is read. Throws Error that names it.
std::string content_of(const std::filesystem::path& path);

/// The same of a regular file or of a pipe, such as <(command) of bash, which is waited for; it may
/// have at most `most` bytes.
std::string content_of_file_or_pipe(const std::filesystem::path& path, std::uint64_t most);

}  // namespace mobius
