#pragma once

#include <stdexcept>
#include <string>

namespace mobius::ptx {

/// What a kernel, or a copy, did that a device would not forgive. The message of a fault in a
/// kernel names the kernel, the instruction with its line of PTX, the block, the thread, and what
/// happened.
struct Fault : std::runtime_error {
  explicit Fault(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace mobius::ptx
