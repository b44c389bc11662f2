#include "data/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace mobius {

InputFile::InputFile(const std::filesystem::path& path)
    : name_(path.string()), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) throw Error("{}: {}", name_, std::strerror(errno));
  struct stat status {};
  ::fstat(descriptor_, &status);
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw Error("{}: is not a file", name_);
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error("{}: {}", name_, std::strerror(errno));
    if (got == 0)
      throw Error("{}: has shrunk from {} to {} bytes while in use", name_, size_, size_now());
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

std::uint64_t InputFile::size_now() const {
  struct stat status {};
  ::fstat(descriptor_, &status);
  return static_cast<std::uint64_t>(status.st_size);
}

std::string content_of(const std::filesystem::path& path) {
  const InputFile file(path);
  std::string content(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(content)));
  return content;
}

}  // namespace mobius
