// Writes to whoever started the program, who may no longer listen.
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
  /// `error` is errno's value, or 0 if it is unknown.
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

/// Writes text that is seen at once. Only require_written() throws, since a run must not end
/// because its output fails.
class Output {
 public:
  /// `out` stays open; a null one writes nothing. Once the reader has left, `stop` is asked to end
  /// the work. After `stop` has been asked, text that a reader does not take is dropped.
  explicit Output(std::FILE* out, StopSignal* stop = nullptr);

  void write(std::string_view text);
  bool is_terminal() const;
  /// The size of the terminal; 80 x 24 if it is no terminal or does not say.
  TerminalSize size() const;
  /// Whether nothing has been lost so far, apart from dropped text.
  bool is_written() const { return !has_failed_; }
  /// Throws OutputError if text has been lost.
  void require_written() const;

 private:
  bool wait_until_writable() const;

  std::FILE* out_;
  StopSignal* stop_;
  bool has_failed_ = false;
  int error_ = 0;
};

/// Flushes standard output, then writes a line to standard error as printable_line() shows it. The
/// line is lost if that fails.
void say(std::string_view line);

/// Flushes standard output. Throws OutputError if any of it could not be written.
void flush_standard_output();

/// Opens /dev/null for those of standard input, output and error that the program was started
/// without. Otherwise the first files it opens would take their places, and prints would go there.
/// Writing to such a standard output fails.
void hold_standard_streams();

}  // namespace mobius
