#include "train/stop_signal.h"

#include <csignal>

namespace mobius {

namespace {

// A signal handler can reach nothing but a global.
volatile std::sig_atomic_t stop_requested = 0;

extern "C" void request_stop(int) { stop_requested = 1; }

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  stop_requested = 0;
  handle(SIGINT, request_stop);
  handle(SIGTERM, request_stop);
  handle(SIGUSR1, request_stop);
  std::signal(SIGXFSZ, SIG_IGN);
}

StopSignal::~StopSignal() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGUSR1, SIG_DFL);
}

bool StopSignal::is_requested() const { return stop_requested != 0; }

}  // namespace mobius
