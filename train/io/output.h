// What the program says to whoever started it, also where nobody listens any more.
#pragma once

#include <cstdio>
#include <string_view>

#include "core/error.h"
#include "train/io/stop_signal.h"

namespace mobius {

/// How the program ends. Documented in `mobius --help` and docs/commands.md.
enum class ExitCode {
  done = 0,
  failed = 1,       ///< a file, the disk, memory, ...
  bad_input = 2,    ///< the configuration or the command line
  diverged = 3,     ///< a loss, a gradient or an update was not finite
  interrupted = 4,  ///< stopped by a signal or a closed output, with everything saved
};

/// Standard output, or a part of it, could not be written.
class OutputError : public Error {
 public:
  /// `error` is errno's value, or 0 where it is not known.
  explicit OutputError(int error);
  /// Whether the reader has left: a pipe that was closed, a terminal that is gone.
  bool is_closed() const { return is_closed_; }

 private:
  bool is_closed_;
};

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};

/// Text that is seen at once. Nothing here throws but require_written(): a run must not end because
/// of what it says.
class Output {
 public:
  /// `out` stays open; where it is null, nothing is written. Once its reader has left, `stop` is
  /// asked to end the work. Nothing waits for a reader that does not read when `stop` has been
  /// asked: the text is dropped.
  explicit Output(std::FILE* out, StopSignal* stop = nullptr);

  void write(std::string_view text);
  bool is_terminal() const;
  /// Of the terminal; 80 x 24 where it is none, or does not say.
  TerminalSize size() const;
  /// Whether nothing has been lost so far but what was dropped.
  bool is_written() const { return !has_failed_; }
  /// Throws OutputError where it is not.
  void require_written() const;

 private:
  bool wait_until_writable() const;

  std::FILE* out_;
  StopSignal* stop_;
  bool has_failed_ = false;
  int error_ = 0;
};

/// Writes a line to standard error, as printable_line() shows it, after what standard output has.
/// Lost where that cannot be written: there is nobody to tell.
void say(std::string_view line);

/// Throws OutputError where standard output, including what still waits in its buffer, could not be
/// written whole.
void flush_standard_output();

/// Opens what a program was started without of standard input, output and error: else the first
/// files opened would take their places, and be written to by whatever prints. Writing to a
/// standard output of this kind fails.
void hold_standard_streams();

}  // namespace mobius
