// How many threads may be asked for.
#pragma once

namespace mobius {

/// Above what any machine has: more would only exhaust the system. num_threads() is never above it,
/// and set_num_threads() throws Error where it is asked for more.
inline constexpr int most_threads = 1024;

}  // namespace mobius
