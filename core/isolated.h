// Work that may crash, hang or take all memory, in a process of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/error.h"

namespace mobius {

/// What an isolated function may take; nothing: as much as there is. One that takes more is ended.
struct IsolationLimits {
  std::optional<std::chrono::seconds> processor = std::chrono::seconds(10);
  std::optional<std::chrono::seconds> wall = std::chrono::seconds(120);
  /// Bytes beyond those that this process has.
  std::optional<std::size_t> memory = std::size_t{512} << 20;
  /// Bytes of what it returns.
  std::optional<std::size_t> answer = std::size_t{64} << 20;
};
inline constexpr IsolationLimits no_limits = {{}, {}, {}, {}};

/// The system has no process, or no pipe, to spare.
class NoProcess : public Error {
 public:
  using Error::Error;
};

/// How it ended.
struct IsolatedResult {
  std::optional<std::string> answer;  ///< nothing where the process died or went beyond a limit
  int signal = 0;                     ///< that ended the process, where one did
  std::int64_t peak_kib = 0;          ///< of its memory; this process's own, where that is larger
};

/// Calls `fn` in a forked child and returns what it returned; nothing else that it does reaches
/// this process. An Error that it throws is thrown here, as a plain Error; any other exception ends
/// the child, and so does a library that calls exit(). `fn` must need no other thread, nor a lock
/// that one may hold; the child dies with the thread that calls. It may write to no stream: its
/// standard input, output and error are /dev/null, and it leaves no core file. Throws NoProcess
/// where none can be started.
IsolatedResult run_isolated(const std::function<std::string()>& fn,
                            const IsolationLimits& limits = {});

}  // namespace mobius
