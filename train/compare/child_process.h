// Starts another process and looks after it.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/io/file.h"

namespace mobius {

/// How a process ended: by itself, with a code, or by a signal.
struct ProcessEnd {
  int exit_code = 0;
  int signal = 0;  ///< 0 if it ended by itself
};

/// Opens the file to which the output of a child process is appended. The child holds it as long as
/// it lives, even beyond the end of this process. Returns nothing if a process still holds it;
/// locks that the file system does not have hold nothing. Throws Error if it cannot be opened.
std::optional<Descriptor> take_log(const std::filesystem::path& path);

/// A process whose output goes to a log. It has a process group of its own, so that only its parent
/// passes Ctrl-C on to it, and it gets SIGTERM when its parent dies.
class ChildProcess {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  /// Starts `command`, whose first part is the path of the program, with these variables added to
  /// the environment. Throws Error.
  ChildProcess(const std::vector<std::string>& command, const Environment& added,
               const Descriptor& log);
  /// Asks it to stop if it still runs, and waits until it has.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), is_asked_(other.is_asked_) {}
  ChildProcess& operator=(ChildProcess&&) = delete;

  /// Returns how it ended, once; nothing while it runs.
  std::optional<ProcessEnd> poll();
  /// Asks it to stop, but only once: it takes a second signal for impatience.
  void terminate();
  /// Stops it and the processes that it has started until go_on().
  void pause() const { send(SIGSTOP); }
  void go_on() const { send(SIGCONT); }

 private:
  void send(int signal) const;

  pid_t pid_;
  bool is_asked_ = false;
};

/// Returns the path of the program that this process runs.
std::filesystem::path own_program();

/// Quotes the text as one word of a POSIX shell.
std::string shell_word(const std::string& text);

}  // namespace mobius
