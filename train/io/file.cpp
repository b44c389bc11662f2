#include "train/io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <random>
#include <system_error>

#include "core/error.h"
#include "data/input_file.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

// step-00000100.h5.mobius-5f0c91aa.tmp
constexpr std::string_view temporary_mark = ".mobius-";
constexpr std::string_view temporary_suffix = ".tmp";
constexpr std::size_t temporary_digits = 8;

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

// Some file systems cannot sync a folder (EINVAL); they order its changes themselves.
void sync(int descriptor, const fs::path& path) {
  if (::fsync(descriptor) != 0 && errno != EINVAL) fail(path, "write to the disk", errno);
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void sync_folder(const fs::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.is_open()) fail(folder, "open", errno);
  sync(descriptor.get(), folder);
}

// Returns the target of a link, even if it is absent, or a path that is no link.
fs::path without_links(fs::path path) {
  constexpr int most_links = 40;  // as the system's
  std::error_code error;
  for (int i = 0; fs::is_symlink(fs::symlink_status(path, error)); ++i) {
    if (i == most_links) fail(path, "follow the link", ELOOP);
    // An open file of this process ("/dev/stdout") has no name to follow.
    if (fs::exists(path, error) && !fs::is_regular_file(path, error)) return path;
    const fs::path target = fs::read_symlink(path, error);
    if (error) fail(path, "follow the link", error.value());
    path = target.is_absolute() ? target : folder_of(path) / target;
  }
  return path;
}

bool is_device_or_pipe(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

// Returns the beginning of the names of temporary files of the path.
std::string temporary_prefix(const fs::path& path) {
  constexpr std::size_t longest = 200;  // leaves room for the rest within the 255 of file systems
  return path.filename().string().substr(0, longest) + std::string(temporary_mark);
}

fs::path temporary_beside(const fs::path& path) {
  return folder_of(path) / fmt::format("{}{:08x}{}", temporary_prefix(path),
                                       std::random_device()() & 0xFFFFFFFFu, temporary_suffix);
}

bool is_locked_by_another(int descriptor) {
  return ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// Whether this process may keep the new file that it has opened: remove_abandoned() of another
// process may take it for one that a killed process has left.
bool holds(int descriptor) {
  if (is_locked_by_another(descriptor)) return false;
  struct stat status {};
  return ::fstat(descriptor, &status) != 0 || status.st_nlink > 0;
}

// Removes a temporary file that no process holds.
void remove_unless_held(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  std::error_code ignored;
  if (file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) fs::remove(path, ignored);
}

}  // namespace

Descriptor::~Descriptor() {
  if (is_open()) ::close(number_);
}

PendingFile::PendingFile(const fs::path& path)
    : path_(without_links(path)), is_in_place_(is_device_or_pipe(path_)) {}

PendingFile::~PendingFile() {
  std::error_code ignored;
  if (is_made_) fs::remove(temporary_, ignored);
}

// O_EXCL protects a file of that name and the target of a link of that name.
void PendingFile::open_new() {
  constexpr int most_tries = 100;
  for (int i = 0; i < most_tries && !descriptor_.is_open(); ++i) {
    temporary_ = temporary_beside(path_);
    descriptor_ = Descriptor(
        ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!descriptor_.is_open() && errno != EEXIST) break;
    if (descriptor_.is_open() && !holds(descriptor_.get())) ::close(descriptor_.release());
  }
  if (!descriptor_.is_open()) fail(path_, "write", errno);
  is_made_ = true;
  struct stat earlier {};
  if (::stat(path_.c_str(), &earlier) == 0)
    ::fchmod(descriptor_.get(), (earlier.st_mode & 0777) | S_IRUSR | S_IWUSR);
}

void PendingFile::write(std::span<const char> content) {
  if (is_in_place_) {
    descriptor_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    if (!descriptor_.is_open()) fail(path_, "open", errno);
  } else {
    open_new();
  }
  write_all(descriptor_.get(), content, path_);
}

// Some file systems report only here that a write has failed.
void PendingFile::close_checked() {
  if (::close(descriptor_.release()) != 0 && errno != EINTR) fail(path_, "write", errno);
}

void PendingFile::commit() {
  if (is_in_place_) return close_checked();
  sync(descriptor_.get(), path_);
  close_checked();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "replace", errno);
  is_made_ = false;
  sync_folder(folder_of(path_));
}

void write_whole_file(const fs::path& path, std::string_view text) {
  PendingFile file(path);
  file.write(text);
  file.commit();
}

AppendedFile::AppendedFile(fs::path path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (!descriptor_.is_open()) fail(path_, "open", errno);
}

void AppendedFile::write(std::string_view text) { write_all(descriptor_.get(), text, path_); }

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error("{}: cannot be made: {}", folder.string(), error.message());
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  if (!fs::is_directory(folder)) return entries;  // throws if the system does not say
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    entries.push_back(entry->path());
  }
  if (error) throw Error("{}: cannot be read: {}", folder.string(), error.message());
  std::sort(entries.begin(), entries.end());
  return entries;
}

void require_free(const fs::path& out, std::initializer_list<fs::path> read, bool may_replace) {
  std::error_code error;
  if (fs::is_directory(out, error))
    throw ConfigError("{}: is a folder, expected a file to write", out.string());
  for (const fs::path& file : read) {
    if (fs::equivalent(out, file, error)) {
      throw ConfigError("{}: would be written over, but is read: it is {}", out.string(),
                        file.string());
    }
  }
  if (may_replace || !fs::is_regular_file(out, error)) return;
  throw ConfigError("{}: exists already; replace it by --force, or choose another name",
                    out.string());
}

bool is_temporary(const fs::path& path) {
  const std::string name = path.filename().string();
  constexpr std::size_t tail = temporary_mark.size() + temporary_digits + temporary_suffix.size();
  if (name.size() <= tail || !name.ends_with(temporary_suffix)) return false;
  const std::string_view end = std::string_view(name).substr(name.size() - tail);
  const std::string_view digits = end.substr(temporary_mark.size(), temporary_digits);
  return end.starts_with(temporary_mark) &&
         std::all_of(digits.begin(), digits.end(),
                     [](unsigned char c) { return std::isxdigit(c) != 0; });
}

void remove_unfinished(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::path& path : entries_of(folder)) {
    const bool is_file = fs::is_regular_file(fs::symlink_status(path, ignored));
    if (is_file && is_temporary(path)) fs::remove(path, ignored);
  }
}

void remove_abandoned(const fs::path& path) {
  const fs::path target = without_links(path);
  const std::string prefix = temporary_prefix(target);
  std::error_code error;  // a folder that cannot be read may still be written to
  for (fs::directory_iterator entry(folder_of(target), error), end; entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(prefix) && is_temporary(name) &&
        entry->symlink_status(error).type() == fs::file_type::regular)
      remove_unless_held(entry->path());
  }
}

FolderLock::FolderLock(const fs::path& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!descriptor_.is_open()) fail(folder, "open", errno);
  if (is_locked_by_another(descriptor_.get())) {
    throw Error("{}: another process is using this folder", folder.string());
  }
}

}  // namespace mobius
