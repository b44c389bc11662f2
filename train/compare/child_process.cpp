#include "train/compare/child_process.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "core/error.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

constexpr int could_not_start = 127;  // as shells say it

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Returns the environment of this process with some variables set.
std::vector<std::string> environment_with(const ChildProcess::Environment& added) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals != nullptr)
      variables[std::string(static_cast<const char*>(*entry), equals)] = equals + 1;
  }
  for (const auto& [name, value] : added) variables[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

// Runs in the child between fork and exec, where only some calls are safe. It resets the signals
// that this program ignores or blocks.
[[noreturn]] void become(char* const* command, char* const* environment, int output, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(could_not_start);  // it died before the line above
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  for (const int ignored : {SIGPIPE, SIGXFSZ}) ::signal(ignored, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(command[0], command, environment);
  ::_exit(could_not_start);
}

}  // namespace

// The lock belongs to the open file, which the child's standard output shares: it is held without a
// gap from before the child begins until it has ended.
std::optional<Descriptor> take_log(const fs::path& path) {
  Descriptor log(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!log.is_open()) throw Error("{}: cannot be written: {}", path.string(), std::strerror(errno));
  if (::flock(log.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return std::nullopt;
  return log;
}

ChildProcess::ChildProcess(const std::vector<std::string>& command, const Environment& added,
                           const Descriptor& log)
    : pid_(-1) {
  std::vector<std::string> words = command;
  std::vector<std::string> variables = environment_with(added);
  const std::vector<char*> arguments = pointers_to(words);
  const std::vector<char*> environment = pointers_to(variables);
  const pid_t parent = ::getpid();
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) become(arguments.data(), environment.data(), log.get(), parent);
  if (pid_ < 0) throw Error("{}: cannot be started: {}", command.front(), std::strerror(errno));
}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  terminate();
  ::waitpid(pid_, nullptr, 0);
}

std::optional<ProcessEnd> ChildProcess::poll() {
  int status = 0;
  if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  if (WIFSIGNALED(status)) return ProcessEnd{.signal = WTERMSIG(status)};
  return ProcessEnd{.exit_code = WEXITSTATUS(status)};
}

void ChildProcess::terminate() {
  if (pid_ > 0 && !std::exchange(is_asked_, true)) ::kill(pid_, SIGTERM);
}

// The child joins its own group only with its first call after the fork.
void ChildProcess::send(int signal) const {
  if (pid_ > 0 && ::kill(-pid_, signal) != 0) ::kill(pid_, signal);
}

fs::path own_program() { return fs::read_symlink("/proc/self/exe"); }

std::string shell_word(const std::string& text) {
  const auto is_safe = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("/._-=+,:@%", c) != nullptr;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_safe)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace mobius
