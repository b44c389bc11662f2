// Errors of Mobius. A message is one line that says what failed, where, what was expected and what
// was found.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace mobius {

/// The base class of all errors of Mobius. A single argument is the message itself; with more
/// arguments the first is an fmt format string, checked at compile time:
///
///   throw ShapeError("matmul: inner sizes differ, {} and {}", a.shape(), b.shape());
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}

  template <typename First, typename... Rest>
  Error(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest)
      : std::runtime_error(
            fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...)) {}
};

/// An error in the configuration or on the command line, which the user can correct.
class ConfigError : public Error {
 public:
  using Error::Error;
};

/// The shapes, dtypes or devices of operands do not fit together. The message names the operation
/// and all shapes involved.
class ShapeError : public Error {
 public:
  using Error::Error;
};

}  // namespace mobius
