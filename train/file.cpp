#include "train/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/error.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view temporary_suffix = ".tmp";

[[noreturn]] void fail(const fs::path& path, std::string_view action, int error) {
  throw Error("{}: cannot {}: {}", path.string(), action, std::generic_category().message(error));
}

void write_all(int descriptor, std::span<const char> content, const fs::path& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path, "write", errno);
    content = content.subspan(static_cast<std::size_t>(written));
  }
}

// An open file or folder, closed at the end of its scope.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags)
      : path_(path), value_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (value_ < 0) fail(path, "open", errno);
  }
  ~Descriptor() { ::close(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void write(std::span<const char> content) { write_all(value_, content, path_); }

  // Some file systems cannot sync a folder (EINVAL); they order its changes themselves.
  void sync() {
    if (::fsync(value_) != 0 && errno != EINVAL) fail(path_, "write to the disk", errno);
  }

 private:
  const fs::path& path_;
  int value_;
};

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

PendingFile::PendingFile(fs::path path)
    : path_(std::move(path)), temporary_(path_.string() + std::string(temporary_suffix)) {}

PendingFile::~PendingFile() {
  std::error_code ignored;
  fs::remove(temporary_, ignored);
}

void PendingFile::write(std::span<const char> content) {
  Descriptor(temporary_, O_WRONLY | O_CREAT | O_TRUNC).write(content);
}

void PendingFile::commit() {
  Descriptor(temporary_, O_RDONLY).sync();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "replace", errno);
  const fs::path folder = folder_of(path_);
  Descriptor(folder, O_RDONLY | O_DIRECTORY).sync();
}

void write_whole_file(const fs::path& path, std::string_view text) {
  PendingFile file(path);
  file.write(text);
  file.commit();
}

AppendedFile::AppendedFile(fs::path path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) fail(path_, "open", errno);
}

AppendedFile::~AppendedFile() { ::close(descriptor_); }

void AppendedFile::write(std::string_view text) { write_all(descriptor_, text, path_); }

std::string read_whole_file(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(path, "read", errno);
  std::string text;
  char block[1 << 16];
  ssize_t count;
  while ((count = ::read(descriptor, block, sizeof block)) > 0) {
    text.append(block, static_cast<std::size_t>(count));
  }
  const int error = errno;
  ::close(descriptor);
  if (count < 0) fail(path, "read", error);
  return text;
}

bool is_temporary(const fs::path& path) { return path.extension() == temporary_suffix; }

FolderLock::FolderLock(const fs::path& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) fail(folder, "open", errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor_);
    throw Error("{}: another process is using this folder", folder.string());
  }
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace mobius
