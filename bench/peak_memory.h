// Memory of the running process, as Linux counts it.
#pragma once

#include <fstream>
#include <string>

namespace mobius {

/// Peak resident memory of this process in MiB; 0 where /proc does not say.
inline double peak_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

}  // namespace mobius
