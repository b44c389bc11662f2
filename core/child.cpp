#include "core/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace mobius {
namespace {

constexpr char whole = '.';  // the last byte of what a child says that came to its end

void write_all(int descriptor, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(descriptor, text.data() + at, text.size() - at);
    if (written < 0 && errno != EINTR) ::_exit(1);
    if (written > 0) at += static_cast<std::size_t>(written);
  }
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 1 << 16> part;
  while (true) {
    const ssize_t got = ::read(descriptor, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
}

[[noreturn]] void run_child(const std::function<std::string()>& make, int descriptor) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Where the library calls exit(), what this process would do at its end is left to the parent.
  std::atexit([] { ::_exit(1); });
  if (const int nowhere = ::open("/dev/null", O_WRONLY); nowhere >= 0) ::dup2(nowhere, 2);
  try {
    write_all(descriptor, make() + whole);
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

}  // namespace

std::optional<std::string> in_child(const std::function<std::string()>& make) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error("no pipe: {}", std::strerror(errno));
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) run_child(make, ends[1]);
  const int reason = errno;
  ::close(ends[1]);
  std::string text = pid < 0 ? "" : read_all(ends[0]);
  ::close(ends[0]);
  if (pid < 0) throw Error("no child process: {}", std::strerror(reason));
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!text.ends_with(whole)) return std::nullopt;
  text.pop_back();
  return text;
}

}  // namespace mobius
