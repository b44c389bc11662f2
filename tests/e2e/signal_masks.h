// Finds the threads of a process that a signal from outside can reach.
#pragma once

#include <sys/types.h>

#include <bitset>
#include <csignal>
#include <filesystem>
#include <string>

#include "tests/train/run_fixture.h"

namespace mobius {

using SignalSet = std::bitset<64>;  // bit n - 1: signal n

inline SignalSet blocked_in(const std::filesystem::path& task) {
  const std::string field = "SigBlk:\t";
  for (const std::string& line : lines_of(read_text(task / "status"))) {
    if (line.starts_with(field)) return std::stoull(line.substr(field.size()), nullptr, 16);
  }
  return SignalSet().set();  // the thread has ended
}

/// Returns the signals that can be caught, except those that a thread itself causes (faults, failed
/// writes, use of a terminal from the background) and two that the C library reserves.
inline SignalSet signals_from_outside() {
  SignalSet set = SignalSet().set();
  for (const int signal : {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP,
                           SIGSYS, SIGPIPE, SIGXFSZ, SIGTTIN, SIGTTOU, 32, 33}) {
    set.reset(static_cast<std::size_t>(signal - 1));
  }
  return set;
}

struct Threads {
  int in_all = 0;
  int open_to_signals = 0;  ///< threads on which a handler could run
};

inline Threads threads_of(pid_t pid) {
  Threads threads;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    ++threads.in_all;
    threads.open_to_signals += (signals_from_outside() & ~blocked_in(task.path())).any();
  }
  return threads;
}

}  // namespace mobius
