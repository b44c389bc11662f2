// Ctrl-C and SIGTERM: end after the step or the test batch in progress, with everything saved.
#pragma once

namespace mobius {

/// While one lives, the first SIGINT or SIGTERM only asks to stop; the second ends the program at
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
