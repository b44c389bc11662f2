#include "core/isolated.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <limits>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace mobius {

namespace {

using Clock = std::chrono::steady_clock;

// The child writes a mark, the size of a text in 8 bytes, and the text.
constexpr char answer_mark = 'a', error_mark = 'e';
constexpr std::size_t head_bytes = 1 + sizeof(std::uint64_t);

// ---- in the child

void limit(decltype(RLIMIT_CPU) resource, rlim_t value) {
  rlimit now{};
  ::getrlimit(resource, &now);
  const rlim_t lower = std::min(value, now.rlim_max);
  const rlimit wanted{lower, lower};
  ::setrlimit(resource, &wanted);
}

// Returns the bytes of address space in use by this process; 0 if unknown.
rlim_t address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

void keep_quiet() {
  const int nothing = ::open("/dev/null", O_RDWR);
  if (nothing < 0) ::_exit(1);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, stream);
  ::prctl(PR_SET_DUMPABLE, 0);
}

// Restores the default action of faults: inherited handlers (of a sanitizer, of MPI) would print
// or try to recover.
void die_of_faults() {
  sigset_t faults;
  sigemptyset(&faults);
  for (const int fault : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGSYS, SIGPIPE, SIGXCPU}) {
    std::signal(fault, SIG_DFL);
    sigaddset(&faults, fault);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

void write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) ::_exit(1);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void send(int descriptor, char mark, std::string_view text) {
  const std::uint64_t size = text.size();
  std::array<char, head_bytes> head{mark};
  std::memcpy(head.data() + 1, &size, sizeof size);
  write_all(descriptor, {head.data(), head.size()});
  write_all(descriptor, text);
}

// Skips the parent's exit handlers: its buffers and objects are copies here.
[[noreturn]] void run_child(const std::function<std::string()>& fn, const IsolationLimits& limits,
                            int out, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent died before the line above
  keep_quiet();
  die_of_faults();
  // If a library calls exit(), the exit handlers are left to the parent.
  std::atexit([] { ::_exit(1); });
  if (limits.processor) limit(RLIMIT_CPU, static_cast<rlim_t>(limits.processor->count()));
  if (limits.memory) limit(RLIMIT_AS, address_space() + *limits.memory);
  try {
    send(out, answer_mark, fn());
  } catch (const Error& error) {
    send(out, error_mark, error.what());
  } catch (const std::exception&) {
    ::_exit(1);
  }
  ::_exit(0);
}

// ---- in the parent

// Returns the timeout for poll() in milliseconds; -1 without a deadline.
int time_left(const std::optional<Clock::time_point>& deadline) {
  if (!deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

// Reads until the other end is closed or a limit is reached.
std::string receive(int descriptor, const IsolationLimits& limits) {
  const auto deadline = limits.wall ? std::optional(Clock::now() + *limits.wall) : std::nullopt;
  std::string received;
  std::array<char, 1 << 16> part;
  while (!limits.answer || received.size() <= *limits.answer + head_bytes) {
    pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, time_left(deadline));
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t count = ready > 0 ? ::read(descriptor, part.data(), part.size()) : 0;
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    received.append(part.data(), static_cast<std::size_t>(count));
  }
  return received;
}

// Returns the text after the mark; empty if it is incomplete.
std::optional<std::string> text_in(const std::string& received) {
  if (received.size() < head_bytes) return std::nullopt;
  std::uint64_t size;
  std::memcpy(&size, received.data() + 1, sizeof size);
  if (size != received.size() - head_bytes) return std::nullopt;
  return received.substr(head_bytes);
}

}  // namespace

IsolatedResult run_isolated(const std::function<std::string()>& fn, const IsolationLimits& limits) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw NoProcess("cannot make a pipe: {}", std::strerror(errno));
  const auto [read_end, write_end] = ends;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) run_child(fn, limits, write_end, parent);
  const int error = errno;
  ::close(write_end);
  if (child < 0) {
    ::close(read_end);
    throw NoProcess("cannot start a process: {}", std::strerror(error));
  }
  const std::string received = receive(read_end, limits);
  ::close(read_end);
  const std::optional<std::string> text = text_in(received);
  if (!text) ::kill(child, SIGKILL);  // it may hang; no effect on a dead child
  int status = 0;
  rusage usage{};
  while (::wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  if (text && received.front() == error_mark) throw Error(*text);
  return {text, WIFSIGNALED(status) ? WTERMSIG(status) : 0, usage.ru_maxrss};
}

}  // namespace mobius
