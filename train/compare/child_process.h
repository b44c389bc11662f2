// Another process, started and looked after by this one.
#pragma once

#include <sys/types.h>

#include <cstdint>
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

/// The file to which the output of a child process is appended. It is held by that process for as
/// long as it lives, also beyond the end of this one: a second process for the same file waits for
/// the first. File systems without locks are taken as they are.
class ChildLog {
 public:
  /// Nothing where a process still holds it. Throws Error where it cannot be opened.
  static std::optional<ChildLog> take(const std::filesystem::path& path);
  ~ChildLog();
  ChildLog(ChildLog&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  ChildLog& operator=(ChildLog&&) = delete;

  int descriptor() const { return descriptor_; }
  /// Bytes in it.
  std::uintmax_t size() const;

 private:
  explicit ChildLog(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

/// A process whose output goes to a log. It has a process group of its own, so that Ctrl-C reaches
/// it through its parent alone; and it is asked to stop (SIGTERM) when its parent dies.
class ChildProcess {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  /// Starts `command`, whose first part is the path of the program, with these variables added to
  /// the environment. Throws Error.
  ChildProcess(const std::vector<std::string>& command, const Environment& added,
               const ChildLog& log);
  /// Where it still runs, asks it to stop, and waits until it has.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), is_asked_(other.is_asked_) {}
  ChildProcess& operator=(ChildProcess&&) = delete;

  /// How it ended; nothing while it runs. To be called no more once it has ended.
  std::optional<ProcessEnd> poll();
  /// Asks it to stop, once: it would take a second time for impatience.
  void terminate();
  /// Stops it, with the processes that it has started, until go_on().
  void pause() const;
  void go_on() const;

 private:
  void send(int signal) const;

  pid_t pid_;
  bool is_asked_ = false;
};

/// The program that this process runs.
std::filesystem::path own_program();

/// The text as one word of a POSIX shell.
std::string shell_word(const std::string& text);

}  // namespace mobius
