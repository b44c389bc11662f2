// Memory of the running process, from Linux's /proc.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

namespace mobius {

/// Returns a field of /proc/self/status in MiB; 0 if there is none.
inline double status_mb(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stod(line.substr(field.size())) / 1024;
  }
  return 0;
}

/// Return the resident memory and its peak in MiB.
inline double resident_mb() { return status_mb("VmRSS:"); }
inline double peak_mb() { return status_mb("VmHWM:"); }

}  // namespace mobius
