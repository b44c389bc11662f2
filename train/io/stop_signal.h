// Signals from outside, taken in a thread of their own.
//
// No handler may run on a thread that computes: products of oneDNN run on stacks of their own,
// which are blocks of the heap, and the kernel writes the frame of a handler below the stack
// pointer, over whatever lies there.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <csignal>
#include <thread>

namespace mobius {

/// While one lives, signals from outside reach a thread of its own alone, which does not compute:
/// the handlers of other libraries (profilers, MPI) run there, too, and everything else has its
/// usual effect. A write to a closed pipe, or past a file-size limit, fails with an error instead
/// of ending the program.
///
/// To be made first thing in main, before there is any other thread; one at a time, and destroyed
/// by the thread that made it. run_command_line() has one.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// From now on SIGINT (Ctrl-C), SIGTERM, SIGUSR1 and SIGHUP (a closed terminal) only ask to stop:
  /// what is in progress ends with everything saved. One that comes more than a second after the
  /// first ends the program at once. SIGHUP stays ignored where it was when the program began, as
  /// under nohup.
  void listen();
  /// Asks to stop, as the first of these signals does.
  void request();
  bool is_requested() const;

  /// From now on SIGTSTP (Ctrl-Z) only asks for a pause, unless it was ignored when the program
  /// began.
  void listen_to_pauses();
  bool is_pause_requested() const;
  /// Does what was asked for: stops the process, until it is continued.
  void pause();

 private:
  void take_signals();

  sigset_t taken_{};
  sigset_t mask_before_{};
  std::array<struct sigaction, 2> actions_before_{};
  std::atomic<bool> is_listening_ = false;
  std::atomic<bool> is_requested_ = false;
  std::atomic<bool> is_listening_to_pauses_ = false;
  std::atomic<bool> is_pause_requested_ = false;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

}  // namespace mobius
