// Ctrl-C, SIGTERM and SIGUSR1: end after the step or the test batch in progress, with everything
// saved. SIGUSR1 is the one that mpirun passes on without ending the ranks a second later.
#pragma once

namespace mobius {

/// While one lives, the first of these signals only asks to stop; the second ends the program at
/// once. It also lets writes past a file-size limit fail with an error instead of ending the
/// program. One at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool is_requested() const;
};

}  // namespace mobius
