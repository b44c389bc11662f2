// A library to preload (LD_PRELOAD), which logs the calls of a program on files below a folder and
// makes some of them fail, or kills the program at one. Environment variables control it:
//
//   FAULTS_BELOW=DIR         the folder, an absolute path
//   FAULTS_LOG=FILE          gets a line for each call: "NUMBER KIND FATE PATH"
//   FAULTS_KINDS=write,sync  the kinds of calls to count, from 1; the others have number 0
//   FAULTS_FIRST=N           the first call to meet the fault; without it, none does
//   FAULTS_LAST=N            the last call to meet the fault
//   FAULTS_HOW=kill          kills the program before the call
//              kill_halfway  kills it after a write has written half of its bytes
//              half          reads or writes half of the bytes
//              ERRNO         fails the call with this number
//
// It affects the program that was started with these variables and its forks, but not programs that
// it starts. A call that fails does nothing, except for close().

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

namespace {

/// Returns the function that would be called without this library.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int number_in(const char* name) { return std::atoi(variable(name).c_str()); }

// "," + "write,rename" + "," holds ",write,".
bool is_listed(const std::string& list, std::string_view word) {
  return ("," + list + ",").find("," + std::string(word) + ",") != std::string::npos;
}

std::string path_of(int descriptor) {
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = ::readlink(link.c_str(), path, sizeof path);
  return size < 0 ? "" : std::string(path, static_cast<std::size_t>(size));
}

std::string path_of(const char* path, int folder = AT_FDCWD) {
  if (path[0] == '/') return path;
  char current[PATH_MAX];
  if (folder != AT_FDCWD) return path_of(folder) + "/" + path;
  return ::getcwd(current, sizeof current) == nullptr ? "" : std::string(current) + "/" + path;
}

enum class Fate { done, halved, killed, killed_halfway, failed };

std::string_view name_of(Fate fate) {
  switch (fate) {
    case Fate::done:
      return "done";
    case Fate::halved:
      return "halved";
    case Fate::killed:
    case Fate::killed_halfway:
      return "killed";
    case Fate::failed:
      break;
  }
  return "failed";
}

class Faults {
 public:
  static Faults& of_this_program() {
    static Faults faults;
    return faults;
  }

  // Decides the fate of the call. Sets errno if it must fail.
  Fate meet(const char* kind, const std::string& path) {
    if (!is_below(path)) return Fate::done;
    const int error = errno;
    const int number = is_listed(kinds_, kind) ? ++*calls_so_far_ : 0;
    const Fate fate = number > 0 && number >= first_ && number <= last_ ? how_ : Fate::done;
    note(std::to_string(number) + " " + kind + " " + std::string(name_of(fate)) + " " + path +
         "\n");
    if (fate == Fate::killed) kill_program();
    errno = fate == Fate::failed ? error_ : error;
    return fate;
  }

  [[noreturn]] void kill_program() const {
    ::kill(program_, SIGKILL);  // the program, even if a forked child makes the call
    while (true) ::pause();
  }

 private:
  Faults()
      : below_(variable("FAULTS_BELOW")),
        kinds_(variable("FAULTS_KINDS")),
        first_(number_in("FAULTS_FIRST")),
        last_(number_in("FAULTS_LAST")),
        error_(number_in("FAULTS_HOW")),
        program_(::getpid()) {
    const char* mark = "FAULTS_STARTED";  // inherited by the programs that this one starts
    if (below_.empty() || !variable(mark).empty()) return;
    ::setenv(mark, "1", 1);
    const std::string how = variable("FAULTS_HOW");
    how_ = how == "kill"           ? Fate::killed
           : how == "kill_halfway" ? Fate::killed_halfway
           : how == "half"         ? Fate::halved
                                   : Fate::failed;
    void* shared = ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);  // shared with forks
    if (shared == MAP_FAILED) std::abort();
    calls_so_far_ = new (shared) std::atomic<int>(0);
    open_log(variable("FAULTS_LOG"));
  }

  void open_log(const std::string& path) {
    constexpr int out_of_the_way = 500;
    const int file = next<decltype(::open)>("open")(
        path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    log_ = ::fcntl(file, F_DUPFD_CLOEXEC, out_of_the_way);
    next<decltype(::close)>("close")(file);
  }

  void note(const std::string& line) const {
    if (log_ < 0) return;
    if (next<decltype(::write)>("write")(log_, line.data(), line.size()) < 0) std::abort();
  }

  bool is_below(const std::string& path) const {
    return calls_so_far_ != nullptr && path.starts_with(below_) &&
           (path.size() == below_.size() || path[below_.size()] == '/');
  }

  const std::string below_, kinds_;
  const int first_, last_, error_;
  const pid_t program_;
  Fate how_ = Fate::done;
  int log_ = -1;
  std::atomic<int>* calls_so_far_ = nullptr;  // null: inactive
};

// Makes a call that is done or fails.
template <typename Result, typename Call>
Result meet(const char* kind, const std::string& path, Result failure, Call call) {
  const Fate fate = Faults::of_this_program().meet(kind, path);
  if (fate == Fate::killed_halfway) Faults::of_this_program().kill_program();
  return fate == Fate::failed ? failure : call();
}

// Makes a call that moves at most `size` bytes; `call` takes their number.
template <typename Call>
ssize_t move_bytes(const char* kind, int descriptor, std::size_t size, Call call) {
  const Fate fate = Faults::of_this_program().meet(kind, path_of(descriptor));
  if (fate == Fate::done) return call(size);
  if (fate == Fate::failed) return -1;
  const ssize_t moved = call(size > 1 ? size / 2 : size);
  if (fate == Fate::killed_halfway) Faults::of_this_program().kill_program();
  return moved;
}

template <typename Call>
int meet_open(const std::string& path, int flags, Call call) {
  return meet((flags & O_CREAT) != 0 ? "create" : "open", path, -1, call);
}

std::FILE* meet_open(const char* path, const char* mode, const char* name) {
  const char* kind = std::strpbrk(mode, "wa") == nullptr ? "open" : "create";
  return meet(kind, path_of(path), static_cast<std::FILE*>(nullptr),
              [&] { return next<decltype(::fopen)>(name)(path, mode); });
}

// Returns the last argument of open(), which exists if the call may create a file.
mode_t mode_in(int flags, va_list arguments) {
  return (flags & O_CREAT) == 0 ? 0 : va_arg(arguments, mode_t);
}

}  // namespace

// The functions of the C library, as it declares them. Calls within the library do not pass here,
// so fopen() and remove() are wrapped, too.
extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return meet_open(path_of(path), flags,
                   [&] { return next<decltype(::open)>("open")(path, flags, mode); });
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return open(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return meet_open(path_of(path, folder), flags,
                   [&] { return next<decltype(::openat)>("openat")(folder, path, flags, mode); });
}

int openat64(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return openat(folder, path, flags, mode);
}

std::FILE* fopen(const char* path, const char* mode) { return meet_open(path, mode, "fopen"); }

std::FILE* fopen64(const char* path, const char* mode) { return meet_open(path, mode, "fopen64"); }

DIR* opendir(const char* path) {
  return meet("open", path_of(path), static_cast<DIR*>(nullptr),
              [&] { return next<decltype(::opendir)>("opendir")(path); });
}

ssize_t read(int file, void* data, std::size_t size) {
  return move_bytes("read", file, size, [&](std::size_t part) {
    return next<decltype(::read)>("read")(file, data, part);
  });
}

ssize_t pread(int file, void* data, std::size_t size, off_t offset) {
  return move_bytes("read", file, size, [&](std::size_t part) {
    return next<decltype(::pread)>("pread")(file, data, part, offset);
  });
}

ssize_t pread64(int file, void* data, std::size_t size, off64_t offset) {
  return pread(file, data, size, offset);
}

ssize_t write(int file, const void* data, std::size_t size) {
  return move_bytes("write", file, size, [&](std::size_t part) {
    return next<decltype(::write)>("write")(file, data, part);
  });
}

ssize_t pwrite(int file, const void* data, std::size_t size, off_t offset) {
  return move_bytes("write", file, size, [&](std::size_t part) {
    return next<decltype(::pwrite)>("pwrite")(file, data, part, offset);
  });
}

ssize_t pwrite64(int file, const void* data, std::size_t size, off64_t offset) {
  return pwrite(file, data, size, offset);
}

// Writes the first piece if only a part is asked for.
ssize_t writev(int file, const iovec* pieces, int count) {
  std::size_t size = 0;
  for (int i = 0; i < count; ++i) size += pieces[i].iov_len;
  return move_bytes("write", file, size, [&](std::size_t part) {
    if (part == size) return next<decltype(::writev)>("writev")(file, pieces, count);
    return next<decltype(::write)>("write")(file, pieces[0].iov_base, pieces[0].iov_len);
  });
}

int fsync(int file) {
  return meet("sync", path_of(file), -1, [&] { return next<decltype(::fsync)>("fsync")(file); });
}

int fdatasync(int file) {
  return meet("sync", path_of(file), -1,
              [&] { return next<decltype(::fdatasync)>("fdatasync")(file); });
}

// Closes the file even if the call reports a failure.
int close(int file) {
  const std::string path = path_of(file);
  const int closed = next<decltype(::close)>("close")(file);
  return meet("close", path, -1, [&] { return closed; });
}

int ftruncate(int file, off_t size) noexcept {
  return meet("truncate", path_of(file), -1,
              [&] { return next<decltype(::ftruncate)>("ftruncate")(file, size); });
}

int truncate(const char* path, off_t size) noexcept {
  return meet("truncate", path_of(path), -1,
              [&] { return next<decltype(::truncate)>("truncate")(path, size); });
}

int rename(const char* from, const char* to) noexcept {
  return meet("rename", path_of(to), -1,
              [&] { return next<decltype(::rename)>("rename")(from, to); });
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return meet("rename", path_of(to, to_folder), -1, [&] {
    return next<decltype(::renameat)>("renameat")(from_folder, from, to_folder, to);
  });
}

int link(const char* from, const char* to) noexcept {
  return meet("link", path_of(to), -1, [&] { return next<decltype(::link)>("link")(from, to); });
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  return meet("link", path_of(to, to_folder), -1, [&] {
    return next<decltype(::linkat)>("linkat")(from_folder, from, to_folder, to, flags);
  });
}

int symlink(const char* content, const char* path) noexcept {
  return meet("link", path_of(path), -1,
              [&] { return next<decltype(::symlink)>("symlink")(content, path); });
}

int remove(const char* path) noexcept {
  return meet("remove", path_of(path), -1,
              [&] { return next<decltype(::remove)>("remove")(path); });
}

int unlink(const char* path) noexcept {
  return meet("remove", path_of(path), -1,
              [&] { return next<decltype(::unlink)>("unlink")(path); });
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  return meet("remove", path_of(path, folder), -1,
              [&] { return next<decltype(::unlinkat)>("unlinkat")(folder, path, flags); });
}

int rmdir(const char* path) noexcept {
  return meet("remove", path_of(path), -1, [&] { return next<decltype(::rmdir)>("rmdir")(path); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  return meet("mkdir", path_of(path), -1,
              [&] { return next<decltype(::mkdir)>("mkdir")(path, mode); });
}

int stat(const char* path, struct stat* into) noexcept {
  return meet("stat", path_of(path), -1,
              [&] { return next<int(const char*, struct stat*)>("stat")(path, into); });
}

int lstat(const char* path, struct stat* into) noexcept {
  return meet("stat", path_of(path), -1,
              [&] { return next<int(const char*, struct stat*)>("lstat")(path, into); });
}

}  // extern "C"
