#include "data/input_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

namespace mobius {

namespace {

[[noreturn]] void fail(const std::string& name, const char* action, int error) {
  throw UnreadableFile("{}: cannot be {}: {}", name, action,
                       std::generic_category().message(error));
}

// Opens without waiting. The caller checks the kind of the file before it reads.
int open_to_read(const std::string& name) {
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) fail(name, "opened", errno);
  return descriptor;
}

struct stat status_of(int descriptor) {
  struct stat status {};
  ::fstat(descriptor, &status);
  return status;
}

// An open file, closed at the end of its scope.
class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name), descriptor_(open_to_read(name)) {}
  ~Reader() { ::close(descriptor_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  bool is_regular() const { return S_ISREG(status_of(descriptor_).st_mode); }
  bool is_pipe() const { return S_ISFIFO(status_of(descriptor_).st_mode); }

  // Waits until a pipe has data, or its writer has opened and closed it. Later reads block.
  void wait_for_writer() const {
    pollfd waited{descriptor_, POLLIN, 0};
    while (::poll(&waited, 1, -1) < 0) {
      if (errno != EINTR) fail(name_, "read", errno);
    }
    if (::fcntl(descriptor_, F_SETFL, 0) != 0) fail(name_, "read", errno);
  }

  std::string read_all(std::uint64_t most) const {
    std::string content;
    std::array<char, 1 << 16> part;
    while (true) {
      const ssize_t count = ::read(descriptor_, part.data(), part.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(name_, "read", errno);
      if (count == 0) return content;
      content.append(part.data(), static_cast<std::size_t>(count));
      if (content.size() > most) throw Error("{}: is longer than {} bytes", name_, most);
    }
  }

 private:
  const std::string& name_;
  const int descriptor_;
};

}  // namespace

InputFile::InputFile(const std::filesystem::path& path)
    : name_(path.string()), descriptor_(open_to_read(name_)) {
  const struct stat status = status_of(descriptor_);
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
    if (got < 0) fail(name_, "read", errno);
    if (got == 0)
      throw Error("{}: has shrunk from {} to {} bytes while in use", name_, size_, size_now());
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

std::uint64_t InputFile::size_now() const {
  return static_cast<std::uint64_t>(status_of(descriptor_).st_size);
}

std::string_view format_of(std::string_view first_bytes) {
  using std::string_view_literals::operator""sv;
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> known = {{
      {"\x1F\x8B\x08"sv, "a gzip file"},
      {"\x28\xB5\x2F\xFD"sv, "a Zstandard file"},
      {"\xFD\x37\x7A\x58\x5A\x00"sv, "an xz file"},
      {"BZh91AY"sv, "a bzip2 file"},
      {"PK\x03\x04"sv, "a zip file"},
      {"\x93NUMPY"sv, "a NumPy file"},
      {"PAR1"sv, "a Parquet file"},
      {"ARROW1"sv, "an Arrow file"},
      {"\x89HDF\r\n"sv, "an HDF5 file"},
      {"\xFF\xFE"sv, "text in UTF-16"},
      {"\xFE\xFF"sv, "text in UTF-16"},
  }};
  for (const auto& [beginning, name] : known) {
    if (first_bytes.starts_with(beginning)) return name;
  }
  return "";
}

std::string content_of(const std::filesystem::path& path) {
  const std::string name = path.string();
  const Reader reader(name);
  if (!reader.is_regular()) throw Error("{}: is not a file", name);
  return reader.read_all(std::numeric_limits<std::uint64_t>::max());
}

std::string content_of_file_or_pipe(const std::filesystem::path& path, std::uint64_t most) {
  const std::string name = path.string();
  const Reader reader(name);
  if (reader.is_pipe()) {
    reader.wait_for_writer();
  } else if (!reader.is_regular()) {
    throw Error("{}: is not a file", name);
  }
  return reader.read_all(most);
}

}  // namespace mobius
