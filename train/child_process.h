// Another process, started and looked after by this one.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mobius {

/// How a process ended: by itself, with a code, or by a signal.
struct ProcessEnd {
  int exit_code = 0;
  int signal = 0;  ///< 0 where it ended by itself
};

/// A process whose output is appended to a file. It has a process group of its own, so that Ctrl-C
/// reaches it through its parent alone; and it is asked to stop (SIGTERM) when its parent dies.
class ChildProcess {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  /// Starts `command`, whose first part is the path of the program, with these variables added to
  /// the environment. Throws Error.
  ChildProcess(const std::vector<std::string>& command, const Environment& added,
               const std::filesystem::path& output);
  /// Kills it where it still runs.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ChildProcess& operator=(ChildProcess&&) = delete;

  /// How it ended; nothing while it runs. To be called no more once it has ended.
  std::optional<ProcessEnd> poll();
  /// Asks it to stop.
  void terminate() const;

 private:
  pid_t pid_;
};

/// The program that this process runs.
std::filesystem::path own_program();

/// The text as one word of a POSIX shell.
std::string shell_word(const std::string& text);

}  // namespace mobius
