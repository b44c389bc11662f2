// The messages of thrown errors, for tests.
#pragma once

#include <string>

#include "core/error.h"

namespace mobius {

/// Returns the message of the E that `fn` throws, or "no error" if it throws nothing.
template <class E = Error, class Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace mobius
