// Takes signals from outside in a thread of their own.
//
// No handler may run on a thread that computes: oneDNN runs matrix products on stacks inside heap
// blocks, and the kernel would write the frame of a handler over what lies below the stack pointer.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <csignal>
#include <thread>

namespace mobius {

/// While one lives, signals from outside reach only its own thread, which does not compute.
/// Handlers of other libraries (profilers, MPI) run there too, and other signals have their usual
/// effect. A write to a closed pipe, or past a file-size limit, fails with an error and does not
/// end the program.
///
/// main must make it first, before there is any other thread; there is one at a time, and the
/// thread that made it destroys it. run_command_line() has one.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// From now on SIGINT (Ctrl-C), SIGTERM, SIGUSR1 and SIGHUP (a closed terminal) only ask to stop:
  /// the work in progress ends with everything saved. A signal more than a second after the first
  /// ends the program at once. SIGHUP stays ignored if the program began so, as under nohup.
  void listen() { is_listening_ = true; }
  /// Asks to stop, like the first of these signals.
  void request() { is_requested_ = true; }
  bool is_requested() const { return is_requested_; }

  /// From now on SIGTSTP (Ctrl-Z) only asks for a pause, unless the program began with it ignored.
  void listen_to_pauses() { is_listening_to_pauses_ = true; }
  bool is_pause_requested() const { return is_pause_requested_; }
  /// Stops the process until it is continued.
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
