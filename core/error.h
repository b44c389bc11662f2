// Errors of Mobius: one clear line that says what failed, where, what was expected and what came.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace mobius {

/// The base of everything Mobius throws on purpose. A message given alone is taken as it is; with
/// arguments it is an fmt format string, checked at compile time:
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

/// The configuration, or what was written on the command line, is wrong: the user can mend it.
class ConfigError : public Error {
 public:
  using Error::Error;
};

/// Operands whose shapes, dtypes or devices do not fit together. The message names the operation
/// and all the shapes concerned.
class ShapeError : public Error {
 public:
  using Error::Error;
};

}  // namespace mobius
