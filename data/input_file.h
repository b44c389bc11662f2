// A file with random-access reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

namespace mobius {

/// The system could not open or read a file, although its content may be valid: an I/O error, no
/// free descriptor, no permission.
class UnreadableFile : public Error {
 public:
  using Error::Error;
};

/// Every method is const and may be called from several threads at once.
class InputFile {
 public:
  /// Throws UnreadableFile if the file cannot be opened, Error if it is not a regular file. Never
  /// waits for the writer of a pipe and never reads an endless device.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& name() const { return name_; }
  /// Returns the size in bytes when the file was opened.
  std::uint64_t size() const { return size_; }
  /// Returns the file descriptor, open for reading. The caller must not close it.
  int descriptor() const { return descriptor_; }
  /// Fills `out` with the bytes from `offset` on. Throws UnreadableFile if they cannot be read,
  /// Error if the file has shrunk.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::uint64_t size_now() const;

  const std::string name_;
  const int descriptor_;
  std::uint64_t size_ = 0;
};

/// Names the format of a file that holds neither text nor plain tokens by its first bytes, such as
/// "a gzip file". Empty if unknown.
std::string_view format_of(std::string_view first_bytes);

/// Returns the content of a regular file up to its current end. Throws Error that names the file.
std::string content_of(const std::filesystem::path& path);

/// Returns the content of a regular file or of a pipe, such as <(command) of bash, whose writer it
/// waits for. Throws Error if there are more than `most` bytes.
std::string content_of_file_or_pipe(const std::filesystem::path& path, std::uint64_t most);

}  // namespace mobius
