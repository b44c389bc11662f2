// The largest number of threads.
#pragma once

namespace mobius {

/// More than any machine has; a larger number would only exhaust the system. num_threads() never
/// exceeds it, and set_num_threads() throws Error above it.
inline constexpr int most_threads = 1024;

}  // namespace mobius
