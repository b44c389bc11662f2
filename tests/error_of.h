// What a call throws, as text, for tests of messages.
#pragma once

#include <string>

#include "core/error.h"

namespace mobius {

/// The message of the E that `fn` throws; "no error" where it throws nothing.
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
