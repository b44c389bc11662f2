// Runs the binary as a user would.
#pragma once

#include <pty.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tests/train/run_fixture.h"

namespace mobius {

struct Outcome {
  int exit_code = -1;  ///< -1 if a signal ended the process
  int signal = 0;
  std::int64_t peak_kib = 0;  ///< peak memory, at least that of this process
  std::string out;
  std::string err;
};

struct Surroundings {
  std::vector<std::pair<std::string, std::string>> environment{};
  rlim_t largest_file = RLIM_INFINITY;
  int standard_output = -1;            ///< a descriptor that replaces the file of Outcome::out
  std::vector<int> ignored_signals{};  ///< all other signals have their default effect
  bool has_own_group = false;          ///< like a job of a shell, which can be stopped
};

/// A child process whose output goes to files. The destructor kills it if it is still running.
class Process {
 public:
  explicit Process(std::vector<std::string> command, const Surroundings& around = {}) {
    std::fflush(nullptr);  // otherwise the child would write the contents of our buffers, too
    pid_ = ::fork();
    if (pid_ < 0) throw Error("fork failed");
    if (pid_ == 0) run(std::move(command), around);
  }
  ~Process() {
    if (pid_ > 0) {
      kill(SIGKILL);
      wait();
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void kill(int signal) const { ::kill(pid_, signal); }
  pid_t pid() const { return pid_; }
  bool has_ended() const {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    return info.si_pid == pid_;
  }
  std::string out() const { return read_text(folder_ / "out"); }
  std::string err() const { return read_text(folder_ / "err"); }

  Outcome wait() {
    int status = 0;
    rusage usage{};
    ::wait4(std::exchange(pid_, -1), &status, 0, &usage);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            WIFSIGNALED(status) ? WTERMSIG(status) : 0, usage.ru_maxrss, out(), err()};
  }

 private:
  [[noreturn]] void run(std::vector<std::string> command, const Surroundings& around) const {
    std::vector<char*> arguments;
    for (std::string& argument : command) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    for (const auto& [name, value] : around.environment) ::setenv(name.c_str(), value.c_str(), 1);
    if (std::freopen((folder_ / "out").c_str(), "w", stdout) == nullptr ||
        std::freopen((folder_ / "err").c_str(), "w", stderr) == nullptr) {
      ::_exit(126);
    }
    if (around.has_own_group) ::setpgid(0, 0);
    if (around.standard_output >= 0) ::dup2(around.standard_output, STDOUT_FILENO);
    // A shell ignores some signals in background jobs, and this test may be one.
    for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
    for (const int signal : around.ignored_signals) std::signal(signal, SIG_IGN);
    const rlimit limit{around.largest_file, around.largest_file};
    if (around.largest_file != RLIM_INFINITY) ::setrlimit(RLIMIT_FSIZE, &limit);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }

  TemporaryFolder folder_;
  pid_t pid_ = -1;
};

inline std::vector<std::string> mobius_command(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {MOBIUS_BINARY};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

inline Outcome mobius(const std::vector<std::string>& arguments, const Surroundings& around = {}) {
  return Process(mobius_command(arguments), around).wait();
}

/// Waits until `condition` holds. Returns false after two minutes, enough for a busy machine.
inline bool wait_until(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Runs the binary with a terminal as its standard output and returns the output.
inline std::string mobius_on_terminal(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = mobius_command(arguments);
  std::vector<char*> pointers;
  for (std::string& argument : command) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  int terminal = -1;
  const winsize size{.ws_row = 24, .ws_col = 120, .ws_xpixel = 0, .ws_ypixel = 0};
  std::fflush(nullptr);
  const pid_t pid = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (pid < 0) throw Error("forkpty failed");
  if (pid == 0) {
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  std::string shown;
  char part[4096];
  for (ssize_t count; (count = ::read(terminal, part, sizeof part)) > 0;) {
    shown.append(part, static_cast<std::size_t>(count));
  }
  ::close(terminal);
  ::waitpid(pid, nullptr, 0);
  return shown;
}

}  // namespace mobius
