#include "train/io/stop_signal.h"

#include <unistd.h>

#include <chrono>
#include <initializer_list>
#include <optional>

namespace mobius {

namespace {

using Clock = std::chrono::steady_clock;

// `timeout` and batch systems send a signal to a process and to its group, milliseconds apart.
constexpr auto impatience = std::chrono::seconds(1);

// Writes to a pipe that nobody reads, or past a limit, raise these.
constexpr std::array failed_writes = {SIGPIPE, SIGXFSZ};

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

// Returns all signals but those that the kernel sends a thread for its own deeds: faults, failed
// writes, and the use of a terminal from the background.
sigset_t signals_from_outside() {
  sigset_t set;
  sigfillset(&set);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPIPE,
                           SIGXFSZ, SIGTTIN, SIGTTOU}) {
    sigdelset(&set, signal);
  }
  return set;
}

bool is_ignored(int signal) {
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

// Lets the signal do what it does to a program that does not handle it.
void give_usual_effect(int signal) {
  const sigset_t one = set_of({signal});
  std::raise(signal);  // blocked, so that it waits
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  pthread_sigmask(SIG_BLOCK, &one, nullptr);
}

}  // namespace

StopSignal::StopSignal() : taken_(set_of({SIGINT, SIGTERM, SIGUSR1})) {
  for (const int signal : {SIGHUP, SIGTSTP}) {
    if (!is_ignored(signal)) sigaddset(&taken_, signal);
  }
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  for (std::size_t i = 0; i < failed_writes.size(); ++i) {
    sigaction(failed_writes[i], &ignore, &actions_before_[i]);
  }
  const sigset_t outside = signals_from_outside();
  pthread_sigmask(SIG_BLOCK, &outside, &mask_before_);
  thread_ = std::thread([this] { take_signals(); });
}

StopSignal::~StopSignal() {
  is_over_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
  for (std::size_t i = 0; i < failed_writes.size(); ++i) {
    sigaction(failed_writes[i], &actions_before_[i], nullptr);
  }
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

void StopSignal::pause() {
  is_pause_requested_ = false;
  give_usual_effect(SIGTSTP);
}

void StopSignal::take_signals() {
  sigset_t mask;  // this thread handles all other signals
  sigorset(&mask, &mask_before_, &taken_);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  std::optional<Clock::time_point> first;
  while (true) {
    siginfo_t info = {};
    const int signal = sigwaitinfo(&taken_, &info);
    if (signal < 0) continue;  // a handler of another signal has run
    if (is_over_ && info.si_pid == getpid()) return;
    if (signal == SIGTSTP && is_listening_to_pauses_) {
      is_pause_requested_ = true;
      continue;
    }
    const auto now = Clock::now();
    if (!is_listening_ || signal == SIGTSTP) {
      give_usual_effect(signal);
    } else if (first && now - *first > impatience) {
      std::signal(signal, SIG_DFL);
      give_usual_effect(signal);
    } else {
      first = first.value_or(now);
      request();
    }
  }
}

}  // namespace mobius
