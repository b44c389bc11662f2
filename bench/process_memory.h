// Memory of the running process, as Linux counts it.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

namespace mobius {

/// A field of /proc/self/status, in MiB; 0 where there is none.
inline double status_mb(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stod(line.substr(field.size())) / 1024;
  }
  return 0;
}

/// Resident memory, and its peak, in MiB.
inline double resident_mb() { return status_mb("VmRSS:"); }
inline double peak_mb() { return status_mb("VmHWM:"); }

}  // namespace mobius
