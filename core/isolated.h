// Runs work that may crash, hang or exhaust memory in a separate process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/error.h"

namespace mobius {

/// Resource limits of an isolated function; an empty one means no limit. Exceeding a limit ends the
/// process.
struct IsolationLimits {
  std::optional<std::chrono::seconds> processor = std::chrono::seconds(10);
  std::optional<std::chrono::seconds> wall = std::chrono::seconds(120);
  /// Bytes in addition to the memory of this process.
  std::optional<std::size_t> memory = std::size_t{512} << 20;
  /// Bytes of the returned string.
  std::optional<std::size_t> answer = std::size_t{64} << 20;
};
inline constexpr IsolationLimits no_limits = {{}, {}, {}, {}};

/// The system could not create a process or a pipe.
class NoProcess : public Error {
 public:
  using Error::Error;
};

/// The outcome of run_isolated().
struct IsolatedResult {
  std::optional<std::string> answer;  ///< empty if the process died or exceeded a limit
  int signal = 0;                     ///< the signal that killed the process, or 0
  std::int64_t peak_kib = 0;          ///< peak memory, at least that of this process
};

/// Calls `fn` in a forked child and returns its result; `fn` has no other effect on this process.
/// An Error that `fn` throws is rethrown here as a plain Error; any other exception, or a call of
/// exit(), ends the child. `fn` must not depend on other threads or on locks that they may hold.
/// The child dies with the calling thread, its standard streams are /dev/null, and it leaves no
/// core file. Throws NoProcess if the child cannot be started.
IsolatedResult run_isolated(const std::function<std::string()>& fn,
                            const IsolationLimits& limits = {});

}  // namespace mobius
