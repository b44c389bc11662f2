#include "train/io/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "train/io/printable.h"

namespace mobius {

namespace {

bool is_of_a_reader_that_left(int error) { return error == EPIPE || error == EIO; }

}  // namespace

OutputError::OutputError(int error)
    : Error("standard output cannot be written{}",
            error == 0 ? "" : ": " + std::generic_category().message(error)),
      is_closed_(is_of_a_reader_that_left(error)) {}

Output::Output(std::FILE* out, StopSignal* stop) : out_(out), stop_(stop) {}

bool Output::is_terminal() const { return out_ != nullptr && ::isatty(::fileno(out_)) != 0; }

TerminalSize Output::size() const {
  TerminalSize size;
  winsize said{};
  if (out_ == nullptr || ::ioctl(::fileno(out_), TIOCGWINSZ, &said) != 0) return size;
  if (said.ws_col > 0) size.columns = said.ws_col;
  if (said.ws_row > 0) size.rows = said.ws_row;
  return size;
}

void Output::write(std::string_view text) {
  if (out_ == nullptr || !wait_until_writable()) return;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), out_) == text.size() && std::fflush(out_) == 0) {
    return;
  }
  has_failed_ = true;
  error_ = errno;
  if (stop_ != nullptr && is_of_a_reader_that_left(error_)) stop_->request();
}

// Returns false if nobody reads and the work is to stop.
bool Output::wait_until_writable() const {
  if (stop_ == nullptr) return true;
  constexpr int interval_ms = 100;
  pollfd descriptor{.fd = ::fileno(out_), .events = POLLOUT, .revents = 0};
  while (true) {
    const bool is_to_stop = stop_->is_requested();
    if (::poll(&descriptor, 1, is_to_stop ? 0 : interval_ms) != 0) return true;
    if (is_to_stop) return false;
  }
}

void Output::require_written() const {
  if (has_failed_) throw OutputError(error_);
}

void say(std::string_view line) {
  std::fflush(stdout);
  Output(stderr).write(printable_line(line) + "\n");
}

void flush_standard_output() {
  errno = 0;
  const bool is_flushed = std::fflush(stdout) == 0;
  if (!is_flushed || std::ferror(stdout) != 0) throw OutputError(is_flushed ? 0 : errno);
}

void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    ::open("/dev/null", O_RDONLY);  // the lowest number that is free: this one
  }
}

}  // namespace mobius
